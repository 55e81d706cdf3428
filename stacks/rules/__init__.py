"""What the values of config keys may be, and which contradict each other: for all clouds, and for
each. Pure."""
