# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-slow bench bench-quick docs lint format clean

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

PEERS := out/peers

$(PEERS)/.installed: benchmarks/peers.txt $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(PEERS) -r benchmarks/peers.txt
	@touch $@

bench: setup $(PEERS)/.installed
	PYTHONPATH=$(PEERS) $(BIN)/python benchmarks/speed.py --peers --out results/benchmarks
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

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .import_linter_cache
