"""Prepares hosts: `survey` reads the facts, `apply` carries out the plan.

System packages and drivers (`system*`, `apt_*`), the installer (`uv`), wheels and Horovod. May
import `ssh`, `clouds` and above, but not `runs`.
"""
