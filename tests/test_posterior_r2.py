"""Bayesian R2 of a posterior: against a conjugate linear model, and against each likelihood's own definition."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import Draws, DrawSource
from r2d2net.likelihoods.base import Noise
from r2d2net.network_inputs import no_units
from r2d2net.priors.latent_noise import GUMBEL, LOGISTIC

DOUBLE = torch.float64


class Conjugate(NamedTuple):
    """w | sigma^2 ~ N(mean, sigma^2 root root'), sigma^2 ~ IG(shape, rate)."""

    mean: torch.Tensor
    root: torch.Tensor
    shape: torch.Tensor
    rate: torch.Tensor
    noise: Noise


class ConjugateDraws(DrawSource[Conjugate]):
    """Exact draws from the normal-inverse-gamma posterior of a linear model."""

    def draws(self, n: int, generator: Any = None, at_once: int | None = None) -> Any:
        state = self.state
        gamma = torch._standard_gamma(state.shape.expand(n), generator=generator)
        variance = state.rate / gamma
        z = torch.randn(n, len(state.mean), dtype=DOUBLE, generator=generator)
        weights = state.mean + variance.sqrt()[:, None] * z @ state.root.T
        yield Draws(weights, weights.new_zeros(n, 0), {}, {"variance": variance[:, None]})

    def center(self) -> Draws:
        return next(self.draws(1))


def conjugate_posterior(x: torch.Tensor, y: torch.Tensor) -> tuple[rn.Posterior[Any], Conjugate]:
    precision = torch.eye(x.shape[1], dtype=DOUBLE) + x.T @ x
    covariance = torch.linalg.inv(precision)
    mean = covariance @ x.T @ y
    rate = 1.0 + 0.5 * (y @ y - mean @ precision @ mean)
    shape = torch.tensor(2.0 + len(y) / 2, dtype=DOUBLE)
    state = Conjugate(mean, torch.linalg.cholesky(covariance), shape, rate, {"variance": rate[None]})
    model = rn.BayesianModel(nn.Linear(x.shape[1], 1, bias=False).double(), rn.priors.Gaussian())
    return rn.Posterior(ConjugateDraws(model, state), no_units(y), flat_target=True), state


def test_r2_of_a_conjugate_model() -> None:
    """E[Var f / sigma^2] = m' S m E[1 / sigma^2] + tr(S V) in closed form; 5 standard errors, false-alarm rate 6e-7.

    R2 / (1 - R2) is that ratio, so the mean of the odds of R2 has a closed form where that of R2 has none.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, dtype=DOUBLE, generator=generator)
    y = x @ torch.tensor([1.0, -0.5, 0.0], dtype=DOUBLE) + torch.randn(40, dtype=DOUBLE, generator=generator)
    posterior, state = conjugate_posterior(x, y)
    new = torch.randn(25, 3, dtype=DOUBLE, generator=generator)
    s = new.T.cov()
    expected = float(state.mean @ s @ state.mean * state.shape / state.rate + (s @ state.root @ state.root.T).trace())
    r2 = posterior.r2(new, draws=20_000, seed=1)
    assert r2.shape == (20_000,)
    assert 0 < float(r2.min()) <= float(r2.max()) < 1
    odds = r2 / (1 - r2)
    error = float(odds.std()) / math.sqrt(len(odds))
    assert abs(float(odds.mean()) - expected) < 5 * error
    assert abs(float((r2 / (1 + r2)).mean()) - expected) > 20 * error  # a fault: Var f / (2 Var f + sigma^2)


@pytest.mark.filterwarnings("ignore:the chains disagree")
def test_r2_of_a_sampler_is_that_of_its_draws() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 3, generator=generator)
    y = torch.stack([x[:, 0], torch.randn(50, generator=generator)], 1) + torch.randn(50, 2, generator=generator)
    posterior = rn.fit(rn.BayesianModel(nn.Linear(3, 2)), (x, y), "lineargibbs", epochs=100, verbose=False, seed=0)
    r2 = posterior.r2(x, draws=100, seed=3)
    weights, noise = posterior.source.state.weights, posterior.source.state.noise["variance"]
    assert r2.shape == (100, 2)
    standard = (x - x.mean(0)) / x.std(0, correction=0)
    layer = posterior.model.bayesian[0].of(weights.flatten(0, 1))
    explained = (layer @ standard.T).double().var(-1)
    every = explained / (explained + noise.flatten(0, 1))
    assert all(bool(torch.isclose(every, one.double(), rtol=1e-4).all(1).any()) for one in r2)  # draws are stored
    assert float(r2[:, 0].mean()) > 0.3 > float(r2[:, 1].mean())


OUTPUTS = torch.randn(6, 30, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(2))
VARIANCE = OUTPUTS.var(1)
ONE, TWO = torch.ones(3, dtype=DOUBLE), torch.full((6, 3), 2.0, dtype=DOUBLE)
RATES = OUTPUTS.exp().mean(1)


@pytest.mark.parametrize(
    ("likelihood", "noise", "explained", "unexplained"),
    [
        (rn.likelihoods.Gaussian(), {"variance": TWO}, VARIANCE, TWO),
        (rn.likelihoods.Gaussian(), {"variance": ONE}, VARIANCE, torch.ones(6, 3)),
        (rn.likelihoods.StudentT(), {"variance": ONE, "df": 4 * ONE}, VARIANCE, torch.full((6, 3), 2.0)),
        (rn.likelihoods.LogNormal(), {"variance": ONE}, VARIANCE, torch.ones(6, 3)),
        (rn.likelihoods.Gamma(), {"offset": ONE, "shape": ONE}, VARIANCE, torch.full((6, 3), 2.0).log()),
        (rn.likelihoods.Poisson(), {}, VARIANCE, (1 + 1 / RATES).log()),
        (rn.likelihoods.Poisson(centered=True), {"offset": ONE}, VARIANCE, (1 + 1 / (math.e * RATES)).log()),
        (
            rn.likelihoods.NegativeBinomial(),
            {"offset": 0 * ONE, "concentration": TWO},
            VARIANCE,
            (1.5 + 1 / RATES).log(),
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_parts_of_r2(likelihood: Any, noise: Noise, explained: torch.Tensor, unexplained: torch.Tensor) -> None:
    found = likelihood.explained_and_noise(OUTPUTS, noise)
    torch.testing.assert_close(found, (explained, unexplained.double()))


def test_parts_of_r2_of_classes() -> None:
    """Two logits have the R2 of their difference; what is added to all logits of a row changes nothing."""
    logits = OUTPUTS[..., :2]
    two = rn.likelihoods.Categorical().explained_and_noise(logits, {})
    one = rn.likelihoods.Bernoulli().explained_and_noise(logits.diff(dim=-1), {})
    torch.testing.assert_close(two[0] / two[1], one[0] / one[1])
    torch.testing.assert_close(one[1], torch.full((6, 1), LOGISTIC, dtype=DOUBLE))
    shifted = rn.likelihoods.Categorical().explained_and_noise(OUTPUTS + OUTPUTS[..., :1], {})
    torch.testing.assert_close(shifted, rn.likelihoods.Categorical().explained_and_noise(OUTPUTS, {}))
    torch.testing.assert_close(shifted[1], torch.full((6, 1), 2 * GUMBEL, dtype=DOUBLE))
    ordinal = rn.likelihoods.Ordinal(3).explained_and_noise(OUTPUTS[..., :1], {})
    torch.testing.assert_close(ordinal[1], one[1])


def test_what_has_no_r2_is_refused() -> None:
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    posterior = rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (x, x[:, 0]), epochs=2, verbose=False, seed=0)
    with pytest.raises(rn.DataError, match="x has 1 row: give two or more"):
        posterior.r2(x[:1])
    with pytest.raises(rn.ParameterError, match="draws='mean' is out of range"):
        posterior.r2(x, draws="mean")  # type: ignore[arg-type]
