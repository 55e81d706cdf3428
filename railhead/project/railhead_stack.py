"""What `pulumi up` runs. `pulumi config` describes the machines."""

from railhead import stack

stack.main()
