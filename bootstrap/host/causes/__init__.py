"""Why an attempt failed, from its output. Pure tables, for hosts and for this computer."""
