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
from r2d2net.estimators.base import BayesianPerceptron
from r2d2net.inference import Method
from r2d2net.inference.carrying_on import CarryOn
from r2d2net.inference.mean_field_mixture import Combined
from r2d2net.inference.stacked import Stacked
from r2d2net.likelihoods import Likelihood
from r2d2net.nets.activations import ACTIVATIONS
from r2d2net.priors import ScaleMixturePrior
from r2d2net.registry import (
    ALGORITHMS,
    FOR_CLASSES,
    FOR_LINEAR_PATH,
    FOR_ONE_LAYER,
    LIKELIHOODS,
    NETWORKS,
    PRIORS,
    SUITABLE_PRIORS,
)
from r2d2net.shrinkage.pruned import Pruned
from table_runs import command

KINDS = [
    (PRIORS, priors, ScaleMixturePrior),
    (LIKELIHOODS, likelihoods, Likelihood),
    (ALGORITHMS, inference, Method),
]
# their targets are not those of a column, for which names are
NOT_FOR_TABLES = {likelihoods.BernoulliLabels, likelihoods.CategoricalPositions}
REGISTRIES = [PRIORS, LIKELIHOODS, ALGORITHMS, NETWORKS]


@pytest.mark.parametrize(("registry", "module", "contract"), KINDS, ids=lambda part: getattr(part, "kind", ""))
def test_every_concrete_class_that_is_exported_is_registered(registry, module, contract):
    exported = {getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))}
    concrete = {cls for cls in exported if issubclass(cls, contract) and not inspect.isabstract(cls)}
    assert set(registry.classes()) == concrete - NOT_FOR_TABLES
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
    # the last three are made of other fits: files name two, and nothing the third; Pruned may not have been imported
    assert concrete | {Pruned} == {*ALGORITHMS.classes(), Stacked, Combined, CarryOn, Pruned}
    assert ALGORITHMS.holds(Stacked)
    assert ALGORITHMS.holds(Pruned)
    assert not {"Stacked", "Pruned"} & {*ALGORITHMS.class_names}


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
            path = rn.BayesianModel(rn.nets.mlp(2, [2], 1, linear=True), prior)
            for algorithms, said in zip(columns, row[1:], strict=True):
                for algorithm in algorithms:
                    method = ALGORITHMS.get_class(algorithm)()
                    special = path if method.needs_linear_path else layer
                    try:
                        method.build(network if method.suits_every_net else special, n=1000, steps=1000)
                    except rn.ParameterError:
                        assert said.startswith("no"), (name, algorithm)
                    else:
                        assert said == "yes", (name, algorithm)
    assert sorted(listed) == sorted(PRIORS.class_names)


def suits(algorithm, prior, likelihood, hidden):
    """Whether an algorithm can be built for a small model; algorithm and prior by name."""
    net = rn.nets.mlp(2, hidden, 2, linear=algorithm in FOR_LINEAR_PATH)
    model = rn.BayesianModel(net, PRIORS.constructor(prior)(), likelihood)
    try:
        ALGORITHMS.constructor(algorithm)().build(model, n=1000, steps=1000)
    except rn.ParameterError:
        return False
    return True


def test_what_is_told_without_torch_is_what_the_classes_do():
    assert set(SUITABLE_PRIORS) == {name for name in ALGORITHMS if not ALGORITHMS.constructor(name).suits_every_prior}
    special = {name for name in ALGORITHMS if not ALGORITHMS.constructor(name).suits_every_net}
    assert {*FOR_ONE_LAYER, *FOR_LINEAR_PATH} == special
    assert set(FOR_LINEAR_PATH) == {name for name in ALGORITHMS if ALGORITHMS.constructor(name).needs_linear_path}
    classes, numbers = rn.likelihoods.Categorical(), rn.likelihoods.Gaussian()
    for algorithm in ALGORITHMS:
        hidden = [] if algorithm in FOR_ONE_LAYER else [2]
        likelihood = numbers if algorithm in special else classes
        suitable = tuple(prior for prior in PRIORS if suits(algorithm, prior, likelihood, hidden))
        assert suitable == SUITABLE_PRIORS.get(algorithm, tuple(PRIORS)), algorithm
        assert suits(algorithm, "gaussian", numbers, hidden) == (algorithm not in FOR_CLASSES), algorithm
        assert suits(algorithm, "gaussian", classes, hidden) == (algorithm not in FOR_LINEAR_PATH), algorithm


def test_the_help_is_made_of_the_registry():
    told = " ".join(command("fit", "--help").out.replace("│", " ").split())
    assert "edl and dpn are for classes, lineargibbs for --hidden 0, linearfirst for numbers, with a " in told
    assert "linear path beside the hidden layers. mfvi needs --prior gaussian; " in told
    assert "; map, mcdropout, deepensemble, edl and " in told
    assert "dpn need --prior gaussian, spike-and-slab or double-pareto." in told
    listed = ", ".join(ACTIVATIONS).replace("relu", "relu (default)", 1)
    assert f"{listed}." in told


@pytest.mark.parametrize("estimator", [BayesianPerceptron, rn.R2D2Regressor])
def test_estimators_refer_to_the_registry(estimator):
    """Names in the docstrings are examples; which algorithm needs which prior is told in one place."""
    start, end = (estimator.__doc__.index(f" {name}: ") for name in ("prior", "epochs"))
    entries = estimator.__doc__[start:end]
    for name in ("PRIORS", "ALGORITHMS", "SUITABLE_PRIORS"):
        assert f"`r2d2net.registry.{name}`" in entries
    assert set(re.findall(r'"([^"]+)"', entries)) <= {*PRIORS, *ALGORITHMS, "auto"}
    assert "need" not in entries


def test_the_first_pages_count_what_is_registered():
    words = {13: "Thirteen", 14: "Fourteen", 15: "Fifteen", 16: "Sixteen", 17: "Seventeen", 18: "Eighteen"}
    root = Path(__file__).parents[1]
    for page in ("README.md", "docs/index.md"):
        assert f"- **{words[len(ALGORITHMS)]} algorithms" in (root / page).read_text(encoding="utf-8")
