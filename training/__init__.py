"""What runs on the hosts: a training program that knows nothing of SSH, Pulumi or Fabric.

In: a run document (RAILHEAD_RUN_FILE) or the same settings on the command line.
Out: records on stdout, and model.keras and evaluation.json in the results folder.
Importing this package, and `python -S -m training --check --json`, need only the standard library.
"""
