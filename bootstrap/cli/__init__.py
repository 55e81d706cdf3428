"""The command line: tasks, their options, and which hosts a command is about.

Modules are imported inside the tasks, so that `fab --list` stays quick.
"""
