"""SGLD against the law of its own recursion, its target, and quadrature. All samples are of independent copies."""

import math

import numpy as np
import pytest
import torch

from langevin_targets import Chain, normal_means, variance_z
from prior_cases import CASES, Case
from r2d2net.inference import SGLD
from r2d2net.priors import R2D2, Gaussian
from reference import ks_p_value

C, NOISE, ROWS, TEMPERATURE, Y = 1.0, 0.5, 2, 3.0, 1.5
D = ROWS / TEMPERATURE / NOISE**2  # precision of the likelihood
LRS = (0.12, 0.06, 0.03)
COPIES, STEPS = 50_000, 80  # the slowest chain's start is forgotten to 0.84^(2 * 80) = 1e-12


def stationary(lr: float, noise_of_gradients: float = 0.0) -> tuple[float, float]:
    """Mean and variance at which one step, w <- decay w - pull g + noise, leaves them: the recursion solved."""
    a = TEMPERATURE / ROWS * lr * C
    decay, pull = math.exp(-a), lr * (1 - math.exp(-a)) / a
    slope = decay - pull / NOISE**2
    added = (1 - math.exp(-2 * a)) / C + (pull * noise_of_gradients) ** 2
    return pull / NOISE**2 * Y / (1 - slope), added / (1 - slope**2)


def chain(lr: float, steps: int = STEPS, **options: float) -> Chain:
    settings = SGLD(lr=lr, temperature=TEMPERATURE, preconditioner="none", burn_in=0.0, thin=steps)
    y = torch.full((COPIES,), Y, dtype=torch.float64)
    return Chain(settings, Gaussian(C**-0.5), y, rows=ROWS, noise=NOISE, steps=steps, **options)


def test_on_a_gaussian_target_the_mean_is_right_and_the_bias_of_the_variance_falls_with_the_step_size() -> None:
    """The recursion's bias halves with lr (first order), and the sampler has the recursion's law.

    z-scores of 3 means and 3 variances below 5: false alarms 4e-6 in all. At the smallest step the bias is 8
    Monte Carlo errors, so that neither a sampler without bias nor one with the wrong bias would pass.
    """
    biases = []
    for lr in LRS:
        mean, variance = stationary(lr)
        assert mean == pytest.approx(Y * D / (C + D), rel=1e-12)
        biases.append(variance * (C + D) - 1)
        k = -math.expm1(-TEMPERATURE / ROWS * lr * C) / C
        assert biases[-1] == pytest.approx((2 - k * C) / (2 - k * (C + D)) - 1, rel=1e-9)  # as the docstring has it
        sampler = chain(lr)
        sampler.run(STEPS)
        w = sampler.state.weights
        assert abs(float(w.mean() - mean)) / math.sqrt(variance / COPIES) < 5
        assert abs(variance_z(w, variance)) < 5
    assert biases[-1] > 8 * math.sqrt(2 / COPIES)
    orders = np.log2(np.divide(biases[:-1], biases[1:]))
    assert orders == pytest.approx([1, 1], abs=0.25)
    assert abs(orders[1] - 1) < abs(orders[0] - 1)


def test_noise_of_batches_adds_to_the_variance_as_it_should() -> None:
    """z below 5: 6e-7."""
    sampler = chain(0.06, noise_of_gradients=5.0)
    sampler.run(STEPS)
    assert abs(variance_z(sampler.state.weights, stationary(0.06, 5.0)[1])) < 5
    assert stationary(0.06, 5.0)[1] > 1.2 * stationary(0.06)[1]


def test_a_frozen_metric_has_the_same_target() -> None:
    """Step sizes of weights that differ ninefold, set as if the burn-in had learnt them: each has its own law.

    6 z-scores below 5: false alarms 4e-6.
    """
    steps = 150
    settings = SGLD(lr=1.0, temperature=TEMPERATURE, schedule="constant", burn_in=2 / steps, thin=steps - 2)
    y = torch.full((COPIES,), Y, dtype=torch.float64)
    sampler = Chain(settings, Gaussian(C**-0.5), y, rows=ROWS, noise=NOISE, steps=steps)
    sampler.run(2)
    size = torch.tensor([0.02, 0.06, 0.18], dtype=torch.float64).repeat(COPIES)[:COPIES]
    wanted = (
        sampler.running.descent.step_unit() / size
    ).square()  # what the metric takes the root of: q_j and its mean
    sampler.state.squares["weights"].copy_(wanted - wanted.mean() / 2)
    sampler.run(1)
    frozen = {name: tensor.clone() for name, tensor in sampler.state.coefficients.items()}
    sampler.run(steps - 3)
    for name, tensor in sampler.state.coefficients.items():
        assert torch.equal(tensor, frozen[name])
    for lr in size.unique().tolist():
        w = sampler.state.weights[size == lr]
        mean, variance = stationary(lr)
        assert abs(float(w.mean() - mean)) / math.sqrt(variance / len(w)) < 5
        assert abs(variance_z(w, variance)) < 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_data_weights_keep_the_law_of_their_prior(case: Case) -> None:
    """Layers of one weight start at draws from the prior; after 24 steps and 8 sweeps |w| has the same law.

    Kolmogorov-Smirnov, p above 1e-6 in each of 12 cases. Where a step shrinks weights too much the sweeps follow it.
    """
    settings = SGLD(lr=0.5, preconditioner="none", burn_in=0.0, thin=24, sweep_every=3)
    layers = 1000 if "adaptive" in case.name else 5000  # whose sweeps cost more the more layers there are
    sampler = Chain(settings, case.prior, torch.zeros(layers, dtype=torch.float64), noise=1e6, steps=24, seed=3)
    sampler.independent_layers(case.prior)
    sampler.run(24)
    assert ks_p_value(sampler.state.weights.abs(), case.cdf) > 1e-6


def test_normal_means_with_the_r2d2_prior_agree_with_quadrature() -> None:
    """y_j ~ N(w_j, 1): E w, E w^2 of two weights and E log xi of 2,000 chains; |z| < 5 (6e-7 each).

    At lr = 0.04 the bias of the variance given the scales is at most 2%, less than the Monte Carlo error of E w^2.
    """
    a_pi, b, y = 0.4, 0.7, torch.tensor([0.3, 4.0], dtype=torch.float64)
    exact, prior, chains = normal_means(a_pi, b, y.numpy()), R2D2(a_pi, b), 2000
    steps = 2000
    settings = SGLD(lr=0.04, preconditioner="none", burn_in=0.0, thin=steps, sweep_every=10)
    sampler = Chain(settings, prior, y.repeat(chains), 2, steps=steps, seed=1)
    sampler.independent_layers(prior)
    sampler.run(steps)
    w = sampler.state.weights.reshape(chains, 2)
    found = [w[:, 0], w[:, 1], w[:, 0] ** 2, w[:, 1] ** 2, sampler.state.scales["weight"].xi.log().squeeze(1)]
    for sample, expected in zip(found, [*exact["w"], *exact["w2"], exact["log_xi"]], strict=True):
        assert abs(float((sample.mean() - expected) / (sample.std() / math.sqrt(chains)))) < 5
