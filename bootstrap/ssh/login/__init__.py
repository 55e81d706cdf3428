"""What ssh_config and the keys of the user give to a login."""
