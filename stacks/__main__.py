"""What `pulumi up` runs in a clone; elsewhere it is the file that `railhead init` writes."""

from stacks.program import main

main()
