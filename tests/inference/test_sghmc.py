"""SGHMC against the law of its own recursion, its target, and quadrature. All samples are of independent copies."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov

from langevin_targets import Chain, normal_means, variance_z
from prior_cases import CASES, Case
from r2d2net.inference import SGHMC
from r2d2net.priors import R2D2, Gaussian
from reference import ks_p_value

C, NOISE, ROWS, TEMPERATURE, Y = 1.0, 0.5, 2, 3.0, 1.5
D = ROWS / TEMPERATURE / NOISE**2  # precision of the likelihood
LRS, FRICTION = (0.4, 0.2, 0.1), 0.4
COPIES, STEPS = 50_000, 80


def stationary(lr: float, noise_of_gradients: float = 0.0, kick: float | None = None) -> tuple[float, np.ndarray]:
    """Mean of w and covariance of (w, v) that a step leaves as they are: the discrete Lyapunov equation.

    The matrices are those of B, of half a step of dw = v, dv = -eta c w by the implicit midpoint rule, and of O; v has
    variance eta = lr T / N at rest. ``kick`` is the factor of the gradient, 1 / (1 - eta c / 16) unless given.
    """
    eta, left = lr * TEMPERATURE / ROWS, 1 - FRICTION
    kick = lr * (1 / (1 - eta * C / 16) if kick is None else kick)
    motion = np.array([[0, 1], [-eta * C, 0]]) / 4  # times a quarter: half of half a step
    half = np.linalg.solve(np.eye(2) - motion, np.eye(2) + motion)
    after = half @ np.diag([1, left]) @ half
    step = after @ np.array([[1, 0], [-kick / NOISE**2, 1]])
    noise, jitter = half @ [0, math.sqrt(eta * (1 - left**2))], after @ [0, kick * noise_of_gradients]
    covariance = solve_discrete_lyapunov(step, np.outer(noise, noise) + np.outer(jitter, jitter))
    mean = np.linalg.solve(np.eye(2) - step, after @ [0, kick * Y / NOISE**2])
    return mean[0], covariance


def chain(lr: float, noise_of_gradients: float = 0.0) -> Chain:
    settings = SGHMC(lr=lr, friction=FRICTION, temperature=TEMPERATURE, preconditioner="none", burn_in=0.0, thin=STEPS)
    y = torch.full((COPIES,), Y, dtype=torch.float64)
    prior = Gaussian(C**-0.5)
    return Chain(settings, prior, y, rows=ROWS, noise=NOISE, steps=STEPS, noise_of_gradients=noise_of_gradients, seed=2)


def test_on_a_gaussian_target_the_law_of_the_weights_is_right_at_every_step_size() -> None:
    """The recursion has the target's mean and variance, and the sampler has the recursion's law.

    The variance of the velocities is off by a share that halves with lr, which is second order: a step of SGHMC is as
    long as the root of lr. 9 z-scores below 5: false alarms 5e-6 in all.
    """
    biases = []
    for lr in LRS:
        mean, covariance = stationary(lr)
        assert mean == pytest.approx(Y * D / (C + D), rel=1e-12)
        assert covariance[0, 0] == pytest.approx(1 / (C + D), rel=1e-12)
        biases.append(1 - covariance[1, 1] / (lr * TEMPERATURE / ROWS))
        sampler = chain(lr)
        sampler.run(STEPS)
        w, v = sampler.state.weights, sampler.state.velocity["weights"]
        assert abs(float(w.mean() - mean)) / math.sqrt(covariance[0, 0] / COPIES) < 5
        assert abs(variance_z(w, 1 / (C + D))) < 5
        assert abs(variance_z(v, covariance[1, 1])) < 5
    orders = np.log2(np.divide(biases[:-1], biases[1:]))
    assert orders == pytest.approx([1, 1], abs=0.1)
    assert biases[0] > 15 * math.sqrt(2 / COPIES)  # so that the velocities' law is seen to be the recursion's


def test_with_noise_of_batches_the_bias_falls_with_the_step_size() -> None:
    """The recursion's bias halves with lr (first order); the sampler has it. 3 z-scores below 5: 2e-6."""
    biases = []
    for lr in (0.1, 0.05, 0.025):
        variance = stationary(lr, 6.0)[1][0, 0]
        biases.append(variance * (C + D) - 1)
        sampler = chain(lr, 6.0)
        sampler.run(STEPS)
        assert abs(variance_z(sampler.state.weights, variance)) < 5
    orders = np.log2(np.divide(biases[:-1], biases[1:]))
    assert orders == pytest.approx([1, 1], abs=0.2)
    assert abs(orders[1] - 1) < abs(orders[0] - 1)
    assert biases[-1] > 10 * math.sqrt(2 / COPIES)


def test_a_plain_kick_would_shift_the_mean() -> None:
    """What the kick's factor is for: without it both moments are off."""
    mean, covariance = stationary(LRS[0], kick=1.0)
    assert mean < 0.99 * Y * D / (C + D)
    assert covariance[0, 0] > 1.01 / (C + D)


def test_a_frozen_metric_has_the_same_target() -> None:
    """Step sizes of weights that differ ninefold, set as if the burn-in had learnt them: all have the target's law.

    6 z-scores below 5: false alarms 4e-6.
    """
    steps = 150
    settings = SGHMC(
        lr=1.0, friction=FRICTION, temperature=TEMPERATURE, schedule="constant", burn_in=2 / steps, thin=steps - 2
    )
    y = torch.full((COPIES,), Y, dtype=torch.float64)
    sampler = Chain(settings, Gaussian(C**-0.5), y, rows=ROWS, noise=NOISE, steps=steps)
    sampler.run(2)
    size = torch.tensor([0.05, 0.15, 0.45], dtype=torch.float64).repeat(COPIES)[:COPIES]
    wanted = (
        sampler.running.descent.step_unit() / size
    ).square()  # what the metric takes the root of: q_j and its mean
    sampler.state.squares["weights"].copy_(wanted - wanted.mean() / 2)
    sampler.run(1)
    frozen = {name: tensor.clone() for name, tensor in sampler.state.coefficients.items()}
    torch.testing.assert_close(frozen["size"], size)
    sampler.run(steps - 3)
    for name, tensor in sampler.state.coefficients.items():
        assert torch.equal(tensor, frozen[name])
    for lr in size.unique().tolist():
        w = sampler.state.weights[size == lr]
        assert abs(float(w.mean() - Y * D / (C + D))) * math.sqrt((C + D) * len(w)) < 5
        assert abs(variance_z(w, 1 / (C + D))) < 5


def test_a_weight_that_its_prior_holds_takes_steps_that_suit_it() -> None:
    """A prior of deviation 0.01, data that say half as much, and s near 16, the pole of the kick: the law is exact.

    2 z-scores below 5: 1e-6.
    """
    settings = SGHMC(lr=15.9e-4, friction=FRICTION, preconditioner="none", burn_in=0.0, thin=STEPS)
    y = torch.full((COPIES,), 0.02, dtype=torch.float64)
    sampler = Chain(settings, Gaussian(0.01), y, noise=0.01 * math.sqrt(2), steps=STEPS, seed=5)
    sampler.run(STEPS)
    w = sampler.state.weights
    assert abs(float(w.mean() - 0.02 / 3)) * math.sqrt(1.5e4 * COPIES) < 5
    assert abs(variance_z(w, 1 / 1.5e4)) < 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_data_weights_keep_the_law_of_their_prior(case: Case) -> None:
    """Layers of one weight start at draws from the prior; after 24 steps and 8 sweeps |w| has the same law.

    So have velocities in units of their own. Kolmogorov-Smirnov, p above 1e-6 twice in each of 12 cases.
    """
    settings = SGHMC(lr=0.5, friction=0.5, preconditioner="none", burn_in=0.0, thin=24, sweep_every=3)
    layers = 1000 if "adaptive" in case.name else 5000  # whose sweeps cost more the more layers there are
    sampler = Chain(settings, case.prior, torch.zeros(layers, dtype=torch.float64), noise=1e6, steps=24, seed=4)
    sampler.independent_layers(case.prior)
    sampler.state.velocity["weights"].normal_(generator=sampler.generator)  # at rest: sizes are 1 at the start
    sampler.run(24)
    assert ks_p_value(sampler.state.weights.abs(), case.cdf) > 1e-6
    velocity = sampler.state.velocity["weights"] / sampler.state.coefficients["size"].sqrt()
    assert ks_p_value(velocity.abs(), lambda x: torch.erf(torch.as_tensor(x) / math.sqrt(2)).numpy()) > 1e-6


def test_normal_means_with_the_r2d2_prior_agree_with_quadrature() -> None:
    """y_j ~ N(w_j, 1): E w, E w^2 of two weights and E log xi of 2,000 chains; |z| < 5 (6e-7 each)."""
    a_pi, b, y = 0.4, 0.7, torch.tensor([0.3, 4.0], dtype=torch.float64)
    exact, prior, chains = normal_means(a_pi, b, y.numpy()), R2D2(a_pi, b), 2000
    steps = 1600
    settings = SGHMC(lr=0.05, friction=0.3, preconditioner="none", burn_in=0.0, thin=steps, sweep_every=8)
    sampler = Chain(settings, prior, y.repeat(chains), 2, steps=steps, seed=1)
    sampler.independent_layers(prior)
    sampler.run(steps)
    w = sampler.state.weights.reshape(chains, 2)
    found = [w[:, 0], w[:, 1], w[:, 0] ** 2, w[:, 1] ** 2, sampler.state.scales["weight"].xi.log().squeeze(1)]
    for sample, expected in zip(found, [*exact["w"], *exact["w2"], exact["log_xi"]], strict=True):
        assert abs(float((sample.mean() - expected) / (sample.std() / math.sqrt(chains)))) < 5


@pytest.mark.parametrize("friction", [0.1, 0.4])
def test_noise_of_batches_heats_as_the_docs_say(friction: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As lr -> 0 the variance grows by the share l N Var(g) / (2 T) (2 - f) / (2 f), by the Lyapunov equation."""
    monkeypatch.setitem(globals(), "FRICTION", friction)
    lr, spread = 1e-5, 3.0
    still, heated = (stationary(lr, noise)[1][0, 0] for noise in (0.0, spread))
    expected = lr * ROWS * spread**2 / (2 * TEMPERATURE) * (2 - friction) / (2 * friction)
    assert heated / still - 1 == pytest.approx(expected, rel=0.01)
