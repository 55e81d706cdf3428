"""Calls a served model from this computer: samples, and the HTTP interface of the endpoint."""
