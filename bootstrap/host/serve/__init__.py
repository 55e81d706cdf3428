"""Programs that keep an endpoint running on its host."""
