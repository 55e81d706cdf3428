"""The Python interface, which the package `railhead` loads: docs/python.md.

`methods.py` is generated: the signatures of the methods, from the options' declarations.
"""
