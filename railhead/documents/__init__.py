"""The documents that the parts of Railhead exchange, each a dataclass in a separate module.

`stacks`, `bootstrap` and `training` may all import it; those of a run are in `runs`. It uses the
standard library of Python 3.10 and no other module of Railhead, because it also runs on the hosts.
"""
