"""What machines of stacks have cost: when each existed and ran, and the bill of it."""
