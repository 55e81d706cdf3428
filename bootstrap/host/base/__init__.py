"""What all programs for hosts share: files, locks, commands with limits, names of programs."""
