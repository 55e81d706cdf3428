"""What the components of all clouds share: their parts, the names of these, and Outputs in them."""
