"""Patches without which Keras 3 fails over several processes, one row each: docs/keras.md.

A rank installs those of its strategy before its script begins. They are applied when the script
imports the modules that they change, so a script without Keras imports nothing more. They run in
the script's process: until one of them is applied, this folder needs only the standard library.
"""
