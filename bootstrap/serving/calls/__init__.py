"""Calls a served model from this side: samples, and the HTTP interface of the endpoint."""
