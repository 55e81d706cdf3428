"""What is looked up in AWS before anything is created. Nothing is changed by it."""
