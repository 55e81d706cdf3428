"""`fab up`: creates or changes the machines of a stack, and leaves the others as they were."""
