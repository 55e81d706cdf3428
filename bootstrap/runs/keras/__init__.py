"""The Keras that a script runs with: what its source shows, and the choice."""
