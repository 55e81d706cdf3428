"""What is looked up in AWS before anything is created. These calls change nothing."""
