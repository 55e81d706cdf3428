"""Endpoints: their documents, the inputs of their models, and who may send requests."""
