"""The readers of data sets and file formats. Each module has `read`, and `fetch` if it needs no
folder; `DATASETS` of training/registry.py names them."""
