"""The readers of data sets and file formats. Each module has `read` and `fetch`; `DATASETS` of
training/registry.py names them."""
