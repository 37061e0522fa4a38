"""The registry: every concrete class of the package is in it, exported, and built by its name."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

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
