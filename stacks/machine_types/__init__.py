"""The machine types of each cloud, as rows. Pure."""
