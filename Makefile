# What a person types. `make demo YES=1` does not ask before sudo.
.PHONY: demo test test-fast bench generate pictures recording site words test-engine test-cloud gpu-wheel gpu-check mutants mutmut check types

bin := .venv/bin
caches := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/railhead
setup := scripts/setup $(if $(YES),--yes)
mypy := $(bin)/mypy --cache-dir $(caches)/mypy
typed := $(wildcard tests/*.py) \
  $(addprefix tests/,\
    bootstrap documents e2e engine hosts keras_patches money mutants scripts standins training)
# The tests of the stacks, by module: mypy takes the folder's files for the package `stacks`.
typed_stacks := $(addprefix -m ,$(subst /,.,$(basename $(wildcard tests/stacks/*.py tests/stacks/*/*.py))))

# Where it is set, every start of Python compiles the clouds' large libraries again.
unexport PYTHONDONTWRITEBYTECODE

# The whole path on this machine: two SSH hosts, training on both, results, teardown.
# With Horovod, which is compiled first: make demo STRATEGY=horovod
demo:
	@$(setup) $(if $(filter horovod,$(STRATEGY)),--compiler)
	@$(bin)/fab demo $(if $(STRATEGY),--strategy $(STRATEGY))

# On a bare machine: set up, then check. Needs nothing but a Python and a network.
test:
	@$(setup) --dev
	@echo 'all tests: about 20 minutes on 2 cores, 30 the first time. The longest start first: no dot for minutes'
	@cd tests && ../$(bin)/python -m standins.stores.servers && ../$(bin)/python -m standins.newer_debian
	@$(MAKE) --no-print-directory check

# While you edit: the tests that start no process, no host and no server (tests/fast.py).
test-fast:
	@$(bin)/pytest -m fast -q -n auto --maxprocesses 4 --dist loadfile \
	  tests/bootstrap tests/documents tests/money tests/stacks tests/training $(wildcard tests/test_*.py)

# Every benchmark that has a goal beside a peer, and the table of docs/benchmarks.md. Some minutes, on a
# machine that does nothing else; each peer gets an environment of its own. One: make bench ONLY=epoch
bench:
	@$(bin)/python -m benchmarks $(ONLY)
	@$(bin)/python -m pages

# After a change of a declaration: the Python interface's signatures, and the tables of the pages.
generate:
	@$(bin)/python -m bootstrap.cli.generate
	@$(bin)/python -m pages

# The pictures of the README, drawn again; RUN=results/ID: from another run. Needs chromium.
pictures:
	@$(bin)/python -m pages.pictures $(RUN)

# The terminal of the README: a run on two SSH hosts of this computer, typed and drawn again.
recording:
	@$(bin)/python -m pages.terminal

# The pages as a site with search, in build/site; its links and anchors are checked.
site:
	@$(bin)/python -m pages.site

# How many words of each page were written by hand.
words:
	@$(bin)/python -m pages.words

# Builds the Pulumi CLI where there is none (needs Go, minutes, once), then the stacks on it.
test-engine:
	@$(setup) --dev
	@scripts/engine
	@RAILHEAD_ENGINE=required $(bin)/pytest tests/engine

# In an account of yours, at your cost: RAILHEAD_CLOUD_TEST=aws|gcp, RAILHEAD_SSH_CIDR=YOURS/32. It
# says the price and asks; after an interruption the same command continues.
test-cloud:
	@$(setup) --dev
	@PATH="$(CURDIR)/$(bin):$$PATH" $(bin)/python -m campaigns.cloud.campaign

# The Horovod wheel for GPUs, compiled and tested on any machine, once: it needs no GPU. Minutes, 1 GB.
# Another TensorFlow: make gpu-wheel RUNTIME=tf2.21
gpu-wheel:
	@$(setup) --compiler
	@$(bin)/fab wheel --gpu $(if $(RUNTIME),--runtime $(RUNTIME))

# On a machine with NVIDIA GPUs: whether all of ours works there, written to tested-on/<gpu>.json.
gpu-check:
	@$(setup)
	@$(bin)/python -m bootstrap.gpu_tools.check

# The same for a person and for CI: format, lint, strict types, tests. mypy uses one core for minutes:
# the tests run beside it, after their bytecode is there, which each worker would compile. Six workers
# on two cores: most tests wait for hosts, engines and servers.
check:
	$(bin)/ruff format --check . scripts/lock
	$(bin)/ruff check . scripts/lock
	@make --no-print-directory types & types=$$!; trap 'kill $$types 2>/dev/null' EXIT; \
	  trap 'exit 130' INT; trap 'exit 143' TERM; \
	  $(bin)/pytest --collect-only -qq >/dev/null; \
	  $(bin)/pytest -n 6 --dist loadfile --no-loadscope-reorder --durations=25 --unchanged; \
	  code=$$?; wait $$types && exit $$code; echo 'types: mypy has failed, see above'; exit 1

types:
	@$(mypy) bootstrap stacks training benchmarks campaigns railhead pages fabfile.py scripts/lock scripts/wheel_types.py
	@$(mypy) $(typed)
	@$(mypy) $(typed_stacks)

# Whether the tests notice faults that are put into the product: tests/mutants, or ROOMS of it.
mutants:
	@$(bin)/python -m tests.mutants $(ROOMS)

# The same for each place of the pure modules: docs/contributing.md.
# One module: make mutmut only='bootstrap.plan.hostfile.*'
mutmut:
	@$(bin)/uv venv --quiet --allow-existing --python $(bin)/python $(caches)/mutmut
	@$(bin)/uv pip sync --quiet --python $(caches)/mutmut locks/dev.txt
	@$(bin)/uv pip install --quiet --python $(caches)/mutmut mutmut==3.8.1
	@$(caches)/mutmut/bin/mutmut run --max-children 2 $(if $(only),'$(only)')
	@$(caches)/mutmut/bin/mutmut results | grep -v ': not checked' || true

# Long tests, resumable: make campaign-NAME SEEDS=1:20; the names are in campaigns/__main__.py.
campaign-%:
	@$(bin)/python -m campaigns $* $(SEEDS)
