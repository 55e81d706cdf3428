# What a person types. `make demo YES=1` does not ask before sudo.
.PHONY: demo test check

bin := .venv/bin
setup := scripts/setup $(if $(YES),--yes)

# The whole path on this machine: two SSH hosts, training on both, results, teardown.
demo:
	@$(setup)
	@$(bin)/fab demo

# On a bare machine: set up, then check. Needs nothing but a Python and a network.
test:
	@$(setup) --dev
	@$(MAKE) --no-print-directory check

# The same for a person and for CI: format, lint, strict types, tests.
check:
	$(bin)/ruff format --check . scripts/lock
	$(bin)/ruff check . scripts/lock
	$(bin)/mypy bootstrap training benchmarks fabfile.py scripts/lock
	$(bin)/pytest
