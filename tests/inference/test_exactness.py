"""Where the answer is known: linear regression in closed form, normal means by quadrature."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import r2d2net as rn


def linear_problem() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=g, dtype=torch.float64) @ torch.randn(5, 5, generator=g, dtype=torch.float64)
    y = x @ torch.randn(5, generator=g, dtype=torch.float64)
    return x, y + 0.5 * torch.randn(200, generator=g, dtype=torch.float64)


SETTINGS: dict[str, Any] = {"warm_up": 0.0, "draws": 4, "estimator": "local"}


@pytest.mark.parametrize("method", [rn.inference.CAVI(**SETTINGS), rn.inference.SVI(**SETTINGS, lr_rho=0.05)])
def test_linear_regression_reaches_the_optimal_mean_field(method: rn.inference.Method) -> None:
    """Mean: that of the exact posterior. Deviations: 1 / sqrt(diagonal of the precision), the best independent ones.

    The step size falls to zero, so what is left is Adam's noise: at most 1.4e-4 for means and 1.3% for deviations over
    four seeds.
    """
    x, y = linear_problem()
    precision = x.T @ x / 0.25 + torch.eye(5, dtype=torch.float64)
    mean, deviation = torch.linalg.solve(precision, x.T @ y / 0.25), precision.diagonal().rsqrt()
    net = torch.nn.Linear(5, 1, bias=False, dtype=torch.float64)
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Gaussian(noise=0.5))
    posterior = rn.fit(model, (x, y), method, epochs=2000, batch_size=200, standardize=False)
    assert float((posterior.mean() - mean).norm() / mean.norm()) < 1e-3
    found = posterior.source.deviation()
    assert float((found / deviation - 1).abs().max()) < 0.03


def test_kl_is_the_closed_form_for_a_gaussian_prior() -> None:
    x, y = linear_problem()
    net = torch.nn.Linear(5, 1, dtype=torch.float64)
    model = rn.BayesianModel(net, rn.priors.Gaussian(0.7), bias=rn.priors.Gaussian(2.0))
    posterior = rn.fit(model, (x, y), rn.inference.SVGI(), epochs=2)
    q = torch.distributions.Normal(posterior.mean(), posterior.source.deviation())
    scale = torch.tensor([0.7] * 5 + [2.0], dtype=torch.float64)
    exact = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros_like(scale), scale)).sum()
    torch.testing.assert_close(posterior.source.kl(), exact)
    assert posterior.history[-1]["kl"] == pytest.approx(float(exact))


def test_normal_means_by_gibbs_agree_with_quadrature() -> None:
    """y_j ~ N(w_j, 1), w with the R2D2 prior: E[w | y] and E[log xi | y] of 4,000 chains, |z| < 5 (6e-7 each)."""
    a_pi, b, y = 0.3, 1.0, torch.tensor([0.3, 4.0], dtype=torch.float64)
    exact_w, exact_log_xi = quadrature(a_pi, b, y.numpy())
    prior, chains = rn.priors.R2D2(a_pi, b), 4000
    g = torch.Generator().manual_seed(1)
    scales = prior.init_scales((chains, 2), g, groups=(chains, 1), dtype=torch.float64)
    for _ in range(400):
        v = prior.variance(scales)
        shrink = v / (1 + v)
        w = shrink * y + shrink.sqrt() * torch.empty_like(v).normal_(generator=g)
        scales = prior.gibbs(w, scales, g)
    found = [w[:, 0], w[:, 1], scales.xi.log().squeeze(1)]
    for sample, expected in zip(found, [*exact_w, exact_log_xi], strict=True):
        z = float((sample.mean() - expected) / (sample.std() / math.sqrt(chains)))
        assert abs(z) < 5


def quadrature(a_pi: float, b: float, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Posterior means on a grid of log xi, log T and log psi; given xi the weights are independent."""
    log_xi, log_t, log_psi = np.arange(-12, 4, 0.2), np.arange(-70, 25, 0.25), np.arange(-25, 5, 0.25)
    psi_weight = np.exp(log_psi - np.exp(log_psi) / 2)
    v = np.exp(log_t[:, None] + log_psi[None, :]) / 2
    evidence, mean = np.zeros((len(log_xi), 2)), np.zeros((len(log_xi), 2))
    for j, at in enumerate(y):
        density = psi_weight * np.exp(-0.5 * at**2 / (1 + v)) / np.sqrt(1 + v)
        given_t, moment_t = density.sum(1), (density * v / (1 + v) * at).sum(1)
        for i, lx in enumerate(log_xi):
            t_weight = np.exp(a_pi * (log_t + lx) - np.exp(log_t + lx))
            evidence[i, j], mean[i, j] = t_weight @ given_t, t_weight @ moment_t
    xi_weight = np.exp(b * log_xi - np.exp(log_xi)) * evidence.prod(1)
    xi_weight /= xi_weight.sum()
    return (xi_weight[:, None] * mean / evidence).sum(0), float(xi_weight @ log_xi)
