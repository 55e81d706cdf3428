"""What keeps an endpoint running on its host."""
