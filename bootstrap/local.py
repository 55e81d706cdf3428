"""The old name of `python -m bootstrap.clouds.local`: stacks made before it moved call it."""

import sys

from bootstrap.clouds.local.cluster import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
