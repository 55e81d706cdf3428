"""What is read from Google's REST APIs before anything is created. These requests change
nothing."""
