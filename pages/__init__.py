"""The documentation: what is generated in its pages, its words, its pictures and its site.

For development only: it may import every other package, and none imports it.
"""
