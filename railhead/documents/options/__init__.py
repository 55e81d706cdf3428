"""All options, each declared once, in a group of the module for its subject."""
