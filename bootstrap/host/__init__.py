"""The programs that are uploaded to hosts, on floors: a folder imports only floors below it.

* base: files, locks, commands with limits, the names of programs. buckets: their objects
* probes: small programs for a runtime's Python. scripts: of the shell
* run: what all programs of a run know of it. causes: why an attempt failed
* agent: the operations of a connection. energy: of a host. lease: who leads a run
* output: of ranks. serve: endpoints
* upload: the files of a run in its bucket. stall: which rank the others wait for
* attempts: how a run starts again. standby: how another host continues it
* supervisor: controls a run on its chief. rank: runs the program

Standard library only, Python 3.10, except in buckets (the clouds' SDKs), probes and
serve/tensorboard.py. The patches of Keras are in railhead.keras_patches. This computer uses the two
lowest floors too, which do nothing when they are imported. Imports are relative: on a host the
package has another name.
"""
