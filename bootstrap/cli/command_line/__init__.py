"""How a command line is read, and what helps to type it."""
