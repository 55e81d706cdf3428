"""The model, and what updates it in a step."""
