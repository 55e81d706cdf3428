"""The agent: one process per connection that runs our operations on a host and answers in JSON."""
