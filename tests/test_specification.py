"""What a saved run says of itself: every prior, likelihood and algorithm through JSON and back."""

import dataclasses
import json

import pytest
import torch

from architectures import Residual, mlp
from prior_cases import CASES, EXTREME_PRIORS
from r2d2net import BayesianModel, CheckpointError, ParameterError, likelihoods, priors, registry
from r2d2net.specification import (
    describe,
    describe_model,
    likelihood_from,
    method_from,
    model_from,
    prior_from,
    require_classes,
)

PRIORS = [*(case.prior for case in CASES), *EXTREME_PRIORS, priors.R2D2.from_r2(0.5, 2.0, 0.3)]
LIKELIHOODS = [cls(3) if cls is likelihoods.Ordinal else cls() for cls in registry.LIKELIHOODS.classes()]
METHODS = registry.ALGORITHMS.classes()


def through_json(thing):
    return json.loads(json.dumps(thing))


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_priors(prior):
    text = through_json(describe(prior))
    assert text == describe(prior)  # a resumed run compares the two
    back = prior_from(text)
    assert type(back) is type(prior)
    assert vars(back).keys() == vars(prior).keys()
    assert back.hyperparameters() == prior.hyperparameters()
    scales = [p.init_scales((5,), torch.Generator().manual_seed(0)) for p in (prior, back)]
    assert all(torch.equal(a, b) for a, b in zip(*scales, strict=True))


def test_every_prior_is_tested():
    assert {type(prior) for prior in PRIORS} == set(registry.PRIORS.classes())


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, likelihoods.Gaussian(noise=0.3)], ids=repr)
def test_likelihoods(likelihood):
    assert likelihood_from(through_json(describe(likelihood))) == likelihood


@dataclasses.dataclass(frozen=True)
class Poisson(likelihoods.Poisson):
    """A class from outside the package with the name of a built-in one."""

    exposure: float = 1.0


class Lasso(priors.Gaussian):
    pass


def test_a_class_from_outside_must_be_handed_over():
    text = through_json(describe(Lasso(2.0)))
    assert text == {"type": "Lasso", "origin": "outside r2d2net", "arguments": {"scale": 2.0}}
    back = prior_from(text, [Poisson, Lasso])
    assert (type(back), back.scale) == (Lasso, 2.0)
    with pytest.raises(CheckpointError, match=r"^the saved run names the prior 'Lasso'.*classes=\[Lasso\]\)$"):
        prior_from(text, [Poisson])
    older = {name: value for name, value in text.items() if name != "origin"}  # as earlier versions saved it
    assert type(prior_from(older, [Lasso])) is Lasso


def test_a_class_from_outside_is_never_taken_for_a_builtin_of_the_same_name():
    own, builtin = Poisson(exposure=3.0), likelihoods.Poisson()
    assert likelihood_from(describe(own), [Poisson]) == own
    assert type(likelihood_from(describe(builtin), [Poisson])) is likelihoods.Poisson
    with pytest.raises(CheckpointError, match=r"classes=\[Poisson\]"):
        likelihood_from(describe(own))


def test_nothing_is_imported_because_a_file_says_so():
    for name in ("os.system", "Likelihood", "Dirichlet", "describe", "R2D2"):
        with pytest.raises(CheckpointError, match="hand its class over"):
            likelihood_from({"type": name, "arguments": {}})


def test_arguments_that_json_cannot_hold_are_refused():
    prior = Lasso(2.0)
    prior.scale = torch.ones(3)
    with pytest.raises(ParameterError, match=r"^scale of Lasso is a Tensor, which JSON cannot hold"):
        describe(prior)
    with pytest.raises(ParameterError, match=r"^object cannot say what its arguments are"):
        describe(object())


def test_classes_are_checked():
    other = type("Lasso", (priors.Horseshoe,), {})
    bad = [(Lasso, "is no list"), ("Lasso", "is no list"), ([Lasso()], "holds Lasso"), ([int], "the class int")]
    for classes, message in [*bad, ([Lasso, other], "two classes 'Lasso'")]:
        with pytest.raises(ParameterError, match=message):
            require_classes(classes)
    require_classes([Lasso, Lasso, Poisson])


def fields(method):
    return {field.name for field in dataclasses.fields(method)}


@pytest.mark.parametrize("method", METHODS)
def test_algorithms(method):
    assert method_from(through_json(describe(method()))) == method()
    changed = {"lr": 0.3, "lr_rho": 0.1, "temperature": 0.5, "sweep_every": 3, "draws": 2, "clip": 1.0, "warm_up": 0.2}
    changed |= {"start": "net", "members": 3, "chains": 3, "thin": 2, "burn_in": 0.25, "rate": 0.3}
    changed = {name: value for name, value in changed.items() if name in fields(method)}
    assert method_from(through_json(describe(method(**changed)))) == method(**changed)


def test_a_model():
    model = BayesianModel(
        Residual(), {"head.*": priors.Horseshoe(), "body.0.weight": priors.R2D2.adaptive()}, norm=priors.Gaussian(0.1)
    )
    text = through_json(describe_model(model))
    again = model_from(Residual(), text)
    assert describe_model(again) == text
    assert again.he_scale().shape == model.he_scale().shape


def test_another_network_or_an_unknown_name_is_refused():
    text = describe_model(BayesianModel(mlp()))
    with pytest.raises(CheckpointError, match="net does not fit the saved run at parameter"):
        model_from(Residual(), text)
    with pytest.raises(CheckpointError, match=r"names the prior 'Cauchy'.*hand its class over"):
        prior_from({"type": "Cauchy", "arguments": {}})


OUT_OF_RANGE = [
    ("schedule", "linear"),
    ("estimator", "flipout"),
    ("start", "zeros"),
    ("variance", "full"),
    ("lr", 0.0),
    ("lr", float("nan")),
    ("draws", 0),
    ("draws", 1.5),
    ("sweep_every", 2.5),
    ("temperature", -1.0),
    ("warm_up", 2.0),
    ("clip", 0.0),
    ("autocast", "float16"),
    ("members", 0),
    ("chains", 0),
    ("thin", 0),
    ("burn_in", 1.0),
    ("memory", 0),
    ("rate", 1.0),
    ("friction", 0.0),
    ("target_accept", 1.0),
    ("max_tree_depth", 0),
    ("scales", "none"),
    ("direction", "sideways"),
]


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [(method, *bad) for method in METHODS for bad in OUT_OF_RANGE if bad[0] in fields(method)],
)
def test_settings_out_of_range_name_argument_and_value(method, argument, value):
    with pytest.raises(ParameterError, match=rf"^{argument}='?{value}'? is out of range: "):
        method(**{argument: value})
    with pytest.raises(TypeError):
        method(learning_speed=1.0)
