"""Which values config keys may have, and which of them contradict each other, for all clouds and
for each. Pure."""
