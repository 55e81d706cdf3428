"""`python -m bootstrap.clouds.local VERB CLUSTER [HOST...]`: see `cluster.main`."""

import sys

from .cluster import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
