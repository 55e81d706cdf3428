"""What is read from Google's REST APIs before anything is made. Nothing is changed by it."""
