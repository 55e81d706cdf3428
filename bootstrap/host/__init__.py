"""The programs that are uploaded to hosts, in layers: a folder imports only layers above it in this
list.

* base: files, locks, commands with limits, the names of programs. buckets: their objects
* probes: small programs for a runtime's Python. scripts: shell scripts
* run: the state of a run that all of its programs share. causes: why an attempt failed
* agent: the operations of a connection. energy: of a host. lease: which host leads a run
* output: of ranks. serve: endpoints
* upload: the files of a run in its bucket. stall: which rank the others wait for
* attempts: how a run starts again. standby: how another host continues it
* supervisor: controls a run on its chief. rank: runs the program

Standard library only, Python 3.10, except in buckets (the clouds' SDKs), probes and
serve/tensorboard.py. The patches of Keras are in railhead.keras_patches. This computer also uses
base, buckets, run and causes, whose import has no side effects. Imports are relative: on a host the
package has another name.
"""
