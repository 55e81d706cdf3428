"""The files of a project: what `railhead init` writes into a folder.

init         writes them
"""
