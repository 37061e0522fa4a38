"""The page of what was measured has the figures of the files."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "decisions.md"


def benchmark(name):
    """Load a script of the benchmarks, with the one beside it that it imports."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@pytest.mark.parametrize("name", ["simulated_calibration", "selection", "planted_effects", "dirichlet_friedman"])
def test_tables_are_those_of_the_files(name):
    module = benchmark(name)
    content = json.loads((ROOT / "results" / "benchmarks" / module.FILE).read_text())
    if name == "simulated_calibration":
        lines = [line for kind in module.NETWORKS for line in module.markdown(content["rows"], kind)]
    else:
        lines = module.markdown(content["summary"])
    text = PAGE.read_text().splitlines()
    assert [line for line in lines if line not in text] == []
    assert len(lines) > 4


def test_the_seconds_of_nuts_are_those_of_the_file():
    content = json.loads((ROOT / "results" / "benchmarks" / "dirichlet-friedman.json").read_text())
    assert f"{content['nuts']['extrapolated']:,.0f} CPU seconds" in PAGE.read_text()


def test_no_cell_of_the_selections_has_more_errors_than_its_bound_allows():
    module = benchmark("selection")
    content = json.loads((ROOT / "results" / "benchmarks" / module.FILE).read_text())
    pooled = module.by_cell(content["rows"], ("truth", "correlation", "contestant"))  # over all sizes
    assert module.above([*content["summary"], *pooled]) == []
    assert sum(line["replicates"] >= module.FEWEST for line in pooled) > 0
