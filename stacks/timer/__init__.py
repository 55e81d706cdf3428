"""What stops a cloud machine from inside: its first deadline, and the minutes without use."""
