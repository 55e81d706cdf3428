"""The documents that the parts of Railhead exchange, each a dataclass in a separate module.

The only package that `stacks`, `bootstrap` and `training` may all import. It uses the standard
library of Python 3.10 and no other module of Railhead, because it also runs on the hosts.
"""
