"""Logs in to a host, with the user's ssh_config and keys."""
