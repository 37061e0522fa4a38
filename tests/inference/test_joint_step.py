"""The step of small perceptrons, written out by hand, against the general step that differentiates automatically."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import inference, likelihoods, priors
from r2d2net.inference.base import flatten
from r2d2net.inference.layered_pass import LayeredPass

ROWS, STEPS = 48, 24  # three sweeps of the scales


class Shifted(likelihoods.Gaussian):
    """A Gaussian likelihood with a `log_prob` of its own."""

    def log_prob(self, output, y, noise):
        return super().log_prob(output + 1, y, noise)


def rows():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 5, generator=g, dtype=torch.float64)
    x[7] = 0  # without a bias its activations have no variance
    return x, torch.sin(x[:, :2]) + 0.1 * torch.randn(ROWS, 2, generator=g, dtype=torch.float64)


def perceptron(activation="relu", outputs=2, *, path=False):
    torch.manual_seed(2)
    return rn.nets.mlp(5, [11, 7], outputs, activation, linear=path).double()


def after(method, prior, net, likelihood, y, *, jointly, **options):
    """State and losses of some steps, by the joint step or without it."""
    model = rn.BayesianModel(net, prior, likelihood, **options)
    trainer = method.build(model, n=200, steps=100)
    assert trainer.joint is not None
    if not jointly:
        trainer.joint = None
    generator = torch.Generator().manual_seed(3)
    state, losses = trainer.init(y, generator), []
    for _ in range(STEPS):
        state, info = trainer.step(state, (rows()[0], y), generator)
        losses.append(info.nll)
    return {**flatten(state), "losses": torch.stack(losses), "generator": generator.get_state()}


CASES = {
    "svgi-local-relu": (inference.SVGI(averaging=1.0), priors.R2D2(), "relu", likelihoods.Gaussian(), {}),
    "svgi-averaged": (inference.SVGI(averaging=0.1), priors.R2D2(), "relu", likelihoods.Gaussian(), {}),
    "svgi-averaged-drawn": (
        inference.SVGI(averaging=0.1, estimator="weights"),
        priors.R2D2(),
        "relu",
        likelihoods.Gaussian(),
        {},
    ),
    "svgi-drawn-tanh": (
        inference.SVGI(estimator="weights"),
        priors.R2D2(),
        "tanh",
        likelihoods.Gaussian(noise=0.3),
        {},
    ),
    "svgi-scaled-gelu": (inference.SVGI(variance="scaled"), priors.Horseshoe(), "gelu", likelihoods.Gaussian(), {}),
    "svgi-of-r2": (inference.SVGI(), priors.R2D2.from_r2(0.5, 2.0, 0.2), "relu", likelihoods.Gaussian(), {}),
    "svgi-two-priors": (
        inference.SVGI(),
        {"0.*": priors.R2D2(), "2.*": priors.Horseshoe(), "4.*": priors.R2D2()},
        "relu",
        likelihoods.Gaussian(),
        {},
    ),
    "svgi-fixed-biases": (inference.SVGI(), priors.R2D2(), "relu", likelihoods.Gaussian(), {"bias": None}),
    "svgi-drawn-fixed-biases": (
        inference.SVGI(estimator="weights"),
        priors.R2D2(),
        "elu",
        likelihoods.Gaussian(),
        {"bias": None},
    ),
    "svgi-own-likelihood": (inference.SVGI(), priors.R2D2(), "relu", Shifted(), {}),
    "cavi-categorical": (inference.CAVI(), priors.R2D2(), "softplus", likelihoods.Categorical(), {}),
    "cavi-of-r2-heteroscedastic": (
        inference.CAVI(),
        priors.R2D2.from_r2(0.5, 2.0, 0.2),
        "relu",
        likelihoods.Heteroscedastic(),
        {},
    ),
    "svi": (inference.SVI(), priors.SpikeSlab(), "silu", likelihoods.Gaussian(), {}),
    "mfvi-poisson": (inference.MFVI(), priors.Gaussian(), "relu", likelihoods.Poisson(), {}),
    "radial": (inference.Radial(), priors.R2D2(), "relu", likelihoods.Gaussian(), {}),
    "map": (inference.MAP(), priors.Gaussian(), "relu", likelihoods.Gaussian(), {}),
    "map-fixed-biases": (
        inference.MAP(),
        priors.GeneralizedDoublePareto(),
        "relu",
        likelihoods.Bernoulli(),
        {"bias": None},
    ),
    "ensemble": (inference.DeepEnsemble(), priors.Gaussian(), "tanh", likelihoods.Categorical(), {}),
}


WITH_PATH = (
    "svgi-local-relu",
    "svgi-averaged-drawn",
    "svgi-two-priors",
    "svgi-fixed-biases",
    "cavi-categorical",
    "map",
)


@pytest.mark.parametrize(("case", "path"), [*((case, False) for case in CASES), *((case, True) for case in WITH_PATH)])
def test_step_is_the_general_one(case, path):
    """In float64, with the same random numbers; differences of 1e-15 grow over the steps and sweeps."""
    method, prior, activation, likelihood, options = CASES[case]
    y, outputs = rows()[1], 2
    if isinstance(likelihood, likelihoods.Categorical):
        y = (y[:, 0] > 0).long()
    elif isinstance(likelihood, likelihoods.Poisson):
        y = y.abs().mul(3).round()
    elif isinstance(likelihood, likelihoods.Bernoulli):
        y, outputs = (y[:, :1] > 0).double(), 1
    elif isinstance(likelihood, likelihoods.Heteroscedastic):
        outputs = 4
    if path and isinstance(prior, dict):
        prior = {"linear.*": priors.Gaussian(), **{f"net.{name}": each for name, each in prior.items()}}
    net = perceptron(activation, outputs, path=path)
    one, other = (after(method, prior, net, likelihood, y, jointly=jointly, **options) for jointly in (True, False))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-7, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize(
    "name", ["ReLU", "Tanh", "Sigmoid", "Softplus", "GELU", "SiLU", "ELU", "LeakyReLU", "Identity"]
)
@pytest.mark.parametrize("path", [False, True])
def test_gradients_are_those_of_autograd(name, path):
    net = nn.Sequential(
        nn.Linear(4, 6), getattr(nn, name)(), nn.Linear(6, 3, bias=False), nn.Tanh(), nn.Tanh()
    ).double()
    model = rn.BayesianModel(rn.nets.LinearPath(net, 4, 3) if path else net)
    layers = LayeredPass.of(model)
    g = torch.Generator().manual_seed(0)
    weights = torch.randn(2, model.size, generator=g, dtype=torch.float64)  # two networks
    x, slope = torch.randn(2, 9, 4, generator=g, dtype=torch.float64), torch.randn(2, 9, 3, generator=g).double()
    room = layers.room(2, weights)
    room.parameters.copy_(weights)
    outputs, tapes = layers.given(room, x)
    leaf = weights.clone().requires_grad_()
    expected = torch.stack([model.forward(leaf[k], leaf.new_zeros(0), {}, x[k]) for k in range(2)])
    torch.testing.assert_close(outputs, expected.detach())
    torch.testing.assert_close(
        layers.gradients(room, tapes, slope), torch.autograd.grad((expected * slope).sum(), leaf)[0]
    )


def test_activations_without_variance_are_not_drawn():
    """A row of zeros, without biases: sqrt has no slope there, and the gradient must stay finite."""
    model = rn.BayesianModel(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False)))
    trainer = inference.SVGI().build(model, n=10, steps=50)
    assert trainer.joint is not None
    x, y, generator = torch.zeros(10, 3), torch.randn(10, 1), torch.Generator().manual_seed(0)
    state = trainer.init(y, generator)
    for _ in range(20):
        state, _ = trainer.step(state, (x, y), generator)
    assert all(bool(tensor.isfinite().all()) for tensor in flatten(state).values())


def with_hook(net):
    net[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    return net


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.2), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(5, 6), nn.PReLU(), nn.Linear(6, 2)),
        with_hook(nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))),
        rn.nets.LinearPath(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.2), nn.Linear(6, 2)), 5, 2),
        nn.Sequential(nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 2)),
    ],
    ids=["dropout", "batch-norm", "prelu", "hook", "dropout beside a path", "large"],
)
def test_other_networks_take_the_general_step(net):
    assert inference.SVGI().build(rn.BayesianModel(net), n=10, steps=10).joint is None


def test_other_settings_take_the_general_step():
    model = rn.BayesianModel(perceptron())
    for method in (inference.SVGI(clip=1.0), inference.SVGI(draws=2), inference.MCDropout(), inference.EDL()):
        plain = (
            model
            if not isinstance(method, (inference.MCDropout, inference.EDL))
            else model.with_prior(priors.Gaussian())
        )
        assert method.build(plain.with_likelihood(likelihoods.Categorical()), n=10, steps=10).joint is None
    frozen = rn.BayesianModel(perceptron(), frozen=["0.*"])
    assert inference.SVGI().build(frozen, n=10, steps=10).joint is None


def test_a_state_with_other_vectors_is_seen():
    """Views of the last state's vectors are kept between steps; those of another state must not be mistaken for it."""
    x, y = rows()
    trainer = inference.SVGI().build(rn.BayesianModel(perceptron()), n=200, steps=100)
    generator = torch.Generator().manual_seed(0)
    state, _ = trainer.step(trainer.init(y, generator), (x, y), generator)
    moved = state._replace(rho=state.rho.clone())
    kept = state.rho.clone()
    moved, _ = trainer.step(moved, (x, y), generator)
    assert torch.equal(state.rho, kept)
    assert not torch.equal(moved.rho, kept)


@pytest.mark.parametrize("prior", [priors.R2D2(), priors.R2D2.paper(), priors.R2D2.from_r2(0.5, 2.0, 0.2)], ids=repr)
@pytest.mark.parametrize("kind", ["gibbs", "cavi"])
def test_layers_swept_together_are_as_one_after_the_other(prior, kind):
    shapes = [(7, 5), (11, 7), (2, 11)]
    g = torch.Generator().manual_seed(0)
    weights = [torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes]
    each = [prior.init_scales(shape, g, dtype=torch.float64) for shape in shapes]
    together = [type(scales)(*(tensor.clone() for tensor in scales)) for scales in each]
    out, joint_out = ([torch.empty_like(w) for w in weights] for _ in range(2))
    generator, joint = (torch.Generator().manual_seed(5) for _ in range(2))
    for _ in range(5):
        if kind == "gibbs":
            parts = zip(weights, each, out, strict=True)
            each = [prior.gibbs_(w, scales, o, generator) for w, scales, o in parts]
            together = prior.gibbs_blocks_(weights, together, joint_out, [joint] * 3)
        else:
            parts = zip(weights, each, out, strict=True)
            each = [prior.cavi_(w.square(), scales, o) for w, scales, o in parts]
            together = prior.cavi_blocks_([w.square() for w in weights], together, joint_out)
    torch.testing.assert_close(together, each, rtol=1e-9, atol=0)
    torch.testing.assert_close(joint_out, out, rtol=1e-9, atol=0)
    assert torch.equal(generator.get_state(), joint.get_state())
