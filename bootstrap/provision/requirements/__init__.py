"""The packages of --requirements: wheels, which are locked here, and sources, which hosts build."""
