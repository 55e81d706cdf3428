"""The readers of data sets and file formats. Each module has `read` and `fetch`; `DATASETS` of
training/data/__init__.py names them."""
