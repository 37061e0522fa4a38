"""The registry: every concrete class of the package is in it, exported, and built by its name."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from itertools import chain, takewhile
from pathlib import Path

import pytest
from torch import nn

import killed_runs
import r2d2net as rn
from r2d2net import inference, likelihoods, nets, priors
from r2d2net.inference import Method
from r2d2net.likelihoods import Likelihood
from r2d2net.priors import ScaleMixturePrior
from r2d2net.registry import ALGORITHMS, LIKELIHOODS, NETWORKS, PRIORS

KINDS = [
    (PRIORS, priors, ScaleMixturePrior),
    (LIKELIHOODS, likelihoods, Likelihood),
    (ALGORITHMS, inference, Method),
]
REGISTRIES = [PRIORS, LIKELIHOODS, ALGORITHMS, NETWORKS]


@pytest.mark.parametrize(("registry", "module", "contract"), KINDS, ids=lambda part: getattr(part, "kind", ""))
def test_every_concrete_class_that_is_exported_is_registered(registry, module, contract):
    exported = {getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))}
    concrete = {cls for cls in exported if issubclass(cls, contract) and not inspect.isabstract(cls)}
    assert set(registry.classes()) == concrete
    assert all(registry.holds(cls) for cls in concrete)
    assert not registry.holds(type("R2D2", (), {}))


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_name_stands_for_something_of_its_kind(registry):
    for name, place in registry.items():
        assert name == name.lower()
        assert callable(registry.constructor(name)), place


def test_networks_are_exported():
    assert {NETWORKS.constructor(name) for name in NETWORKS} <= {getattr(nets, name) for name in nets.__all__}


def test_names_are_told_without_torch():
    code = (
        "import sys, r2d2net.registry as r; print([list(x) for x in (r.PRIORS, r.ALGORITHMS)], 'torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == f"{[list(PRIORS), list(ALGORITHMS)]} False"


def test_every_module_of_an_algorithm_is_registered():
    """A file that defines a method with all it needs is not forgotten."""
    modules = {place.partition(":")[0] for place in ALGORITHMS.values()}
    for name in modules:
        import_module(f"r2d2net.{name}")

    def below(cls):
        return {cls, *(leaf for child in cls.__subclasses__() for leaf in below(child))}

    concrete = {cls for cls in below(Method) if not inspect.isabstract(cls) and cls.__module__.startswith("r2d2net.")}
    assert concrete == set(ALGORITHMS.classes())


def test_every_algorithm_is_killed_by_a_signal_in_some_test():
    assert sorted(killed_runs.ALGORITHMS) == sorted(ALGORITHMS)


# --- the tables of the documentation


def tables_of(page, first):
    """Tables of a page whose first column has this heading, each as cells of its rows, the headings among them."""
    lines = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(f"| {first} |")]
    tables = [list(takewhile(lambda line: line.startswith("|"), lines[start:])) for start in starts]
    cells = [[[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table] for table in tables]
    return [[table[0], *table[2:]] for table in cells]


def names_in(cell):
    """Class and function names in a cell; an example of a class counts as its name."""
    named = [re.sub(r"\(.*\)$", "", name) for name in re.findall(r"`([^`]+)`", cell)]
    return ["AdaptiveR2D2" if name == "R2D2.adaptive" else name.split(".")[0] for name in named]


@pytest.mark.parametrize(
    ("page", "first", "count", "names"),
    [
        ("priors.md", "prior", 1, PRIORS.class_names),
        ("algorithms.md", "algorithm", 2, ALGORITHMS.class_names),
        ("networks.md", "name", 1, NETWORKS),
    ],
)
def test_the_tables_of_the_documentation_list_what_is_registered(page, first, count, names):
    tables = tables_of(page, first)
    assert len(tables) == count
    for _, *rows in tables:
        assert {name for row in rows for name in names_in(row[0])} == set(names)


def test_the_documentation_says_which_algorithms_suit_which_priors():
    ((headings, *rows),) = tables_of("algorithms.md", "prior")
    columns = [heading.split(", ") for heading in headings[1:]]
    assert sorted(chain(*columns)) == sorted(ALGORITHMS.class_names)
    listed = []
    for row in rows:
        for name in names_in(row[0]):
            listed.append(name)
            prior = PRIORS.get_class(name)()
            network = rn.BayesianModel(rn.nets.mlp(2, [2], 2), prior, rn.likelihoods.Categorical())
            layer = rn.BayesianModel(nn.Linear(2, 1), prior)
            for algorithms, said in zip(columns, row[1:], strict=True):
                for algorithm in algorithms:
                    method = ALGORITHMS.get_class(algorithm)()
                    try:
                        method.build(network if method.suits_every_net else layer, n=1000, steps=1000)
                    except rn.ParameterError:
                        assert said.startswith("no"), (name, algorithm)
                    else:
                        assert said == "yes", (name, algorithm)
    assert sorted(listed) == sorted(PRIORS.class_names)
