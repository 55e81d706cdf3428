"""All options, each declared once: in the group of the module that is about its subject."""
