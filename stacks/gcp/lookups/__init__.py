"""What is read from Google's REST APIs before anything is created. Nothing is changed by it."""
