"""Charts as SVG, in a page or as a file, without a library and without scripts. Pure."""
