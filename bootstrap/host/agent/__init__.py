"""The agent: one process per connection; runs operations on a host and replies in JSON."""
