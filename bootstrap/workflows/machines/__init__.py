"""Commands that change the machines of stacks while runs may be in progress."""
