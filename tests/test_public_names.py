"""What `import r2d2net` shows: public names only, contracts among them; algorithms composed rather than inherited."""

import subprocess
import sys

import pytest

import r2d2net as rn
from r2d2net import registry
from r2d2net.inference import DrawSource, Method, Trainer


def test_dir_shows_public_names_only() -> None:
    code = (
        "import r2d2net as rn; before = dir(rn); rn.fit; rn.priors.R2D2; assert dir(rn) == before == sorted(rn.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    for name in rn.__all__:
        assert getattr(rn, name) is not None


@pytest.mark.parametrize(
    ("room", "names"),
    [
        (rn.priors, ("ScaleMixturePrior", "ContinuousScalePrior", "Factors")),
        (rn.likelihoods, ("Likelihood", "Noise", "Unit")),
        (rn.inference, ("Method", "Trainer", "DrawSource", "Draws", "Info")),
        (rn, ("Prediction", "Regression", "Classification", "DirichletClassification", "Counts", "Posterior")),
    ],
)
def test_contract_classes_are_exported(room, names) -> None:
    assert set(names) <= set(room.__all__)


def levels(kind: type, contract: type) -> int:
    """Return how many classes stand between a class and its contract, itself counted."""
    return len([base for base in kind.__mro__ if issubclass(base, contract) and base is not contract])


@pytest.mark.parametrize("name", registry.ALGORITHMS)
def test_no_algorithm_inherits_over_more_than_two_levels(name) -> None:
    """Trainers and sources of draws; settings have one level more, as they add up the arguments of their engine."""
    method = registry.ALGORITHMS.constructor(name)()
    likelihood = rn.likelihoods.Categorical() if name in ("edl", "dpn") else rn.likelihoods.Gaussian()
    one_layer = not (method.suits_every_net or method.needs_linear_path)
    net = rn.nets.mlp(3, [] if one_layer else [4], 2, linear=method.needs_linear_path)
    trainer = method.build(rn.BayesianModel(net, rn.priors.Gaussian(), likelihood), n=20, steps=20)
    assert levels(type(trainer), Trainer) <= 2
    assert levels(type(method), Method) <= 3
    for source in rn.inference.DrawSource.__subclasses__():
        assert levels(source, DrawSource) <= 2
