"""What the components of all clouds share: their parts, the names of the parts, and Outputs in
settings."""
