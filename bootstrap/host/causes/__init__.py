"""Why an attempt failed, from its output: tables, pure, for hosts and for this computer."""
