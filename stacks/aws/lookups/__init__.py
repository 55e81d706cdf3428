"""What is looked up in AWS before anything is made. Nothing is changed by it."""
