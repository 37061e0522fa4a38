"""Radial posteriors: noise whose length ignores dimension, its exact KL, and the gradients that follow from it."""

import math

import pytest
import torch
from scipy.stats import halfnorm, kstest
from torch import nn

import r2d2net as rn
from r2d2net.inference.adam import BETA1
from r2d2net.inference.mean_field_family import NormalNoise

DRAWS = 1000


def setting(net, method="Radial", prior=None, seed=0, **arguments):
    """An algorithm and a state with means and deviations of all sizes."""
    prior = rn.priors.Gaussian(0.7) if prior is None else prior
    model = rn.BayesianModel(net.double(), prior, rn.likelihoods.Gaussian(noise=0.5), bias=rn.priors.Gaussian(2.0))
    running = getattr(rn.inference, method)(**arguments).build(model, n=20, steps=100)
    g = torch.Generator().manual_seed(seed)
    state = running.init(torch.zeros(1, 1), g)
    state.mean.normal_(generator=g)
    state.rho.uniform_(-2, 1, generator=g)
    return running, state, g


def lengths(running, state, draws, g):
    """|(w - mu) / s| of one parameter tensor, with s = sqrt(D) times the deviation."""
    standard = (running.source(state).sample(draws, g) - state.mean) / running.source(state).deviation()
    return (standard.norm(dim=1) / math.sqrt(state.mean.numel())).numpy()


@pytest.mark.parametrize("size", [1, 2, 100, 10_000])
def test_the_noise_has_half_normal_length_whatever_the_dimension(size):
    """Kolmogorov-Smirnov at 1e-4; MFVI's independent noise of the same deviations fails it beyond one dimension."""
    net, found = nn.Linear(size, 1, bias=False), {}
    for method in ("Radial", "MFVI"):
        running, state, g = setting(net, method)
        found[method] = kstest(lengths(running, state, DRAWS, g), halfnorm.cdf).pvalue
    assert found["Radial"] > 1e-4
    assert size == 1 or found["MFVI"] < 1e-10


def assert_mean(sample, expected):
    """Means over the first dimension within 5 standard errors: false alarm 6e-7 each."""
    error = sample.std(0) / math.sqrt(len(sample))
    assert bool(((sample.mean(0) - expected).abs() <= 5 * error + 1e-12).all())


def test_directions_are_uniform_and_tensors_independent():
    """Moments of the direction u in three dimensions: E u = 0, E u u' = I / 3, E u_j^4 = 1 / 5; 40 means."""
    running, state, g = setting(nn.Linear(3, 1))
    noise = (running.source(state).sample(100_000, g) - state.mean) / running.source(state).deviation()
    weight, bias = noise[:, :3], noise[:, 3]
    length = weight.norm(dim=1, keepdim=True)
    u = weight / length
    pairs = (u[:, :, None] * u[:, None, :]).flatten(1)
    assert_mean(u, 0)
    assert_mean(pairs, torch.eye(3).flatten() / 3)
    assert_mean(u**4, 1 / 5)
    centred = length.square() - length.square().mean()
    assert_mean(centred * pairs, 0)  # length and direction
    assert_mean(centred * bias[:, None].square(), 0)  # two parameter tensors
    assert_mean(bias[:, None] * weight, 0)
    # the deviation that the engine knows is that of a weight
    drawn = running.source(state).sample(100_000, g)
    assert_mean((drawn - state.mean).square(), running.source(state).deviation().square())


def log_q(running, state, weights):
    """The density of q from its definition: half-normal length, uniform direction, change of variables."""
    total = torch.zeros(len(weights), dtype=weights.dtype)
    for slot in running.model.bayesian:
        size = slot.stop - slot.start
        s = math.sqrt(size) * slot.of(running.source(state).deviation()).flatten()
        radius = ((slot.of(weights) - slot.of(state.mean)).flatten(1) / s).norm(dim=1)
        log_area = math.log(2 * math.pi ** (size / 2) / math.gamma(size / 2))
        log_length = 0.5 * math.log(2 / math.pi) - radius.square() / 2
        total += log_length - log_area - (size - 1) * radius.log() - s.log().sum()
    return total


def test_the_kl_is_the_expected_log_ratio():
    """E log q - E log p by 400,000 draws within 5 standard errors (6e-7), which are below 1% of the KL."""
    running, state, g = setting(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)))
    drawn = running.source(state).sample(400_000, g)
    ratio = log_q(running, state, drawn)
    for slot in running.model.bayesian:
        ratio -= slot.prior.log_prob(slot.of(drawn)).flatten(1).sum(1)
    error = float(ratio.std()) / math.sqrt(len(ratio))
    exact = float(running.source(state).kl())
    assert error < 0.01 * exact
    assert abs(float(ratio.mean()) - exact) < 5 * error
    deviation = running.source(state).deviation()
    radial, normal = (noise.entropy(running.model, deviation) for noise in (running.family.noise, NormalNoise()))
    mean_field = exact + float(radial - normal)
    assert abs(float(ratio.mean()) - mean_field) > 5 * error  # the entropy of independent noise will not do


def test_a_step_takes_the_gradient_of_the_exact_objective():
    """Adam's first moment after one step against autograd of nll + KL / N, the KL written by hand in mu and s."""
    running, state, _ = setting(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)), warm_up=0.0)
    draw = torch.Generator().manual_seed(3)
    x, y = torch.randn(20, 3, generator=draw).double(), torch.randn(20, 1, generator=draw).double()
    noise = running.family.noise.draw(running.model, torch.Generator().manual_seed(5))
    mean, rho = state.mean.clone().requires_grad_(), state.rho.clone().requires_grad_()
    model = running.model
    output = model.forward(mean + rho.exp() * noise, state.fixed, state.buffers, x)
    objective = -torch.distributions.Normal(output, 0.5).log_prob(y).sum(1).mean()
    for slot in model.bayesian:
        size, scale = slot.stop - slot.start, slot.prior.scale
        s = math.sqrt(size) * slot.of(rho).exp()
        cross = (slot.of(mean).square() + s.square() / size) / (2 * scale**2)
        objective = objective + (cross - s.log()).sum() / 20
    exact = torch.autograd.grad(objective, (mean, rho))
    state, _ = running.step(state, (x, y), torch.Generator().manual_seed(5))
    for name, gradient in zip(("mean", "rho"), exact, strict=True):
        torch.testing.assert_close(state.moments[name].first / (1 - BETA1), gradient)


def test_scales_are_refreshed_by_the_second_moment_of_the_weights():
    prior = rn.priors.SpikeSlab()
    running, state, g = setting(nn.Linear(5, 4, bias=False), prior=prior, sweep_every=1)
    x, y = torch.randn(20, 5, generator=g).double(), torch.randn(20, 4, generator=g).double()
    before = state.scales["weight"]
    state, _ = running.step(state, (x, y), g)
    slot = running.model.bayesian[0]
    moment = (running.source(state).sample(200_000, g)).square()  # its mean is what the factors must have seen
    error = moment.std(0) / math.sqrt(len(moment))
    low, high = (prior.cavi(slot.of(moment.mean(0) + k * error), before).precision for k in (-5, 5))
    found = slot.of(state.precision)
    assert bool(((found >= torch.minimum(low, high)) & (found <= torch.maximum(low, high))).all())


def test_what_radial_noise_cannot_do_is_refused():
    with pytest.raises(rn.errors.ParameterError, match=r"^estimator='local' is out of range: .*use 'weights'"):
        rn.inference.Radial(estimator="local")
    with pytest.raises(rn.errors.ParameterError, match=r"^variance='scaled' is out of range"):
        rn.inference.Radial(variance="scaled")
