# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-slow test-oldest test-newest bench bench-quick table-peers docs lint format dist clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/r2d2net demo --out out/demo
	$(BIN)/r2d2net reproduce simulation --scale smoke --out out/demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Tests of other versions of the dependencies than those of constraints.txt, each in an environment of its own: the oldest
# that pyproject.toml declares, and the newest there are. Where PyPI's torch comes with gigabytes of CUDA, as on Linux,
# UV_TORCH_BACKEND=cpu takes the CPU build. Deprecations in the dependencies' own code are shown and are not failures.
ACROSS := tests/test_cli.py tests/test_readme.py tests/test_model.py tests/test_posterior.py tests/distributions \
          tests/priors tests/estimators tests/columns tests/tables tests/inference/test_contract.py tests/run
ACROSS_OPTIONS := -n 2 --dist worksteal -W default::DeprecationWarning -W default::FutureWarning

test-oldest:
	$(PYTHON) -m venv --clear out/oldest
	out/oldest/bin/python -m pip install --quiet uv
	out/oldest/bin/uv pip install --quiet --python out/oldest --resolution lowest-direct -r pyproject.toml --extra parquet --extra mcmc
	out/oldest/bin/uv pip install --quiet --python out/oldest -e '.[test]'
	out/oldest/bin/python -m pytest $(ACROSS_OPTIONS) $(ACROSS)

test-newest:
	$(PYTHON) -m venv --clear out/newest
	out/newest/bin/python -m pip install --quiet uv
	out/newest/bin/uv pip install --quiet --python out/newest -e '.[test]'
	out/newest/bin/python -m pytest $(ACROSS_OPTIONS) $(ACROSS)

PEERS := out/peers

$(PEERS)/.installed: benchmarks/peers.txt $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(PEERS) -r benchmarks/peers.txt
	@touch $@

TABLE_PEERS := out/table-peers

table-peers: $(TABLE_PEERS)/.installed

$(TABLE_PEERS)/.installed: benchmarks/table-peers.txt $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(TABLE_PEERS) -r benchmarks/table-peers.txt
	@touch $@

bench: setup $(PEERS)/.installed
	PYTHONPATH=$(PEERS) $(BIN)/python benchmarks/speed.py --peers --out results/benchmarks
	PYTHONPATH=$(PEERS) $(BIN)/python benchmarks/native_steps.py --out results/benchmarks
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/data_loading.py

bench-quick: setup
	$(BIN)/python benchmarks/speed.py --quick

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: setup
	$(BIN)/ruff check src tests benchmarks tutorials
	$(BIN)/ruff format --check src tests benchmarks tutorials
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix src tests benchmarks tutorials
	$(BIN)/ruff format src tests benchmarks tutorials

# The sdist (without results/) and the wheel made from it, then the wheel used in a clean environment outside the checkout.
# That environment has links to the dependencies already installed here; CLEAN=pip has pip install them anew.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	R2D2NET_DIST=dist R2D2NET_CLEAN=$(CLEAN) $(BIN)/python -m pytest tests/test_packaging_dist.py

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .import_linter_cache
