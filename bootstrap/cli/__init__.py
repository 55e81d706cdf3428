"""The command line: tasks, their options, and the hosts of a command.

Modules are imported inside the tasks to keep `fab --list` fast.
"""
