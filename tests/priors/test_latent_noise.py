"""R2 on the scale of the output, for classes and counts: the variances of the noise, and the prior that follows."""

import math
from typing import Any

import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net import ParameterError
from r2d2net.priors import R2D2
from r2d2net.priors.latent_noise import GUMBEL, LOGISTIC, count_noise, scale_for_r2

DOUBLE = torch.float64
MANY = 200_000


def within(found: torch.Tensor, expected: float) -> bool:
    """Whether the mean of independent draws is within five standard errors of a number: false-alarm rate 6e-7."""
    return abs(float(found.mean()) - expected) < 5 * float(found.std()) / math.sqrt(found.numel())


def test_noise_of_latent_classes() -> None:
    """Logistic noise, and Gumbel noise less its mean over K classes."""
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(MANY, dtype=DOUBLE, generator=generator)
    assert within((u.log() - (1 - u).log()).square(), LOGISTIC)
    for classes in (2, 5):
        gumbel = -(-torch.rand(MANY, classes, dtype=DOUBLE, generator=generator).log()).log()
        centred = (gumbel - gumbel.mean(1, keepdim=True)).square().sum(1)
        assert within(centred, (classes - 1) * GUMBEL)
        assert not within(centred, classes * GUMBEL)


@pytest.mark.parametrize(("mean", "size"), [(0.7, math.inf), (4.0, math.inf), (4.0, 1.5)])
def test_noise_of_counts(mean: float, size: float) -> None:
    """The log-normal law with the mean and variance of simulated counts has this variance of its logarithm."""
    generator = torch.Generator().manual_seed(1)
    rate = torch.full((MANY,), mean, dtype=DOUBLE)
    if math.isfinite(size):
        rate = rate * torch._standard_gamma(torch.full_like(rate, size), generator=generator) / size
    counts = torch.poisson(rate, generator=generator)
    # E y^2 = m^2 exp(v) for the log-normal law
    assert within(counts.square(), mean**2 * math.exp(float(count_noise(mean, size))))
    assert not within(counts.square(), mean**2 * math.exp(1 / mean + 1 / size))  # without the logarithm


@pytest.mark.parametrize(
    ("likelihood", "options", "noise"),
    [
        ("bernoulli", {}, LOGISTIC),
        (rn.likelihoods.Ordinal(4), {}, LOGISTIC),
        ("poisson", {"mean_count": 2.0}, math.log1p(0.5)),
        ("negative-binomial", {"mean_count": 2.0, "size": 4.0}, math.log1p(0.75)),
        ("gamma", {"size": 4.0}, math.log1p(0.25)),
        ("student-t", {}, 1.0),
    ],
)
def test_the_prior_has_the_promised_pseudo_r2(likelihood: Any, options: dict[str, float], noise: float) -> None:
    """Explained variance against the noise on the scale of the output; false-alarm rate 1e-6 each."""
    prior = R2D2.from_r2(0.3, 4.0, 0.5, likelihood=likelihood, **options)
    scales = prior.init_scales((4000, 10), torch.Generator().manual_seed(2), groups=(4000, 1), dtype=DOUBLE)
    explained = prior.sigma0**2 * scales.omega.squeeze(1)  # E Var f given T, for standardised inputs
    law = stats.beta(1.2, 2.8)
    assert stats.kstest((explained / (explained + noise)).numpy(), law.cdf).pvalue > 1e-6
    if noise != 1:
        assert stats.kstest((explained / (explained + 1)).numpy(), law.cdf).pvalue < 1e-9


def test_the_prior_of_several_classes_has_the_promised_pseudo_r2() -> None:
    """Latent variance that is left after the mean over classes is taken off; weights are drawn many times given T."""
    classes, inputs, layers = 3, 8, 4000
    prior = R2D2.from_r2(0.4, 3.0, 0.5, likelihood="categorical", classes=classes)
    generator = torch.Generator().manual_seed(3)
    scales = prior.init_scales((layers, classes, inputs), generator, groups=(layers, 1, 1), dtype=DOUBLE)
    deviation = prior.sigma0 * scales.T.sqrt()  # psi integrated out
    explained = torch.zeros(layers, dtype=DOUBLE)
    for _ in range(200):
        w = deviation * torch.randn(deviation.shape, dtype=DOUBLE, generator=generator)
        explained += (w - w.mean(1, keepdim=True)).square().sum((1, 2)) / 200
    r2 = explained / (explained + (classes - 1) * GUMBEL)
    expected = stats.beta(1.2, 1.8)
    assert abs(float(r2.mean()) - expected.mean()) < 5 * expected.std() / math.sqrt(layers) + 0.005  # of 200 draws


def test_two_logits_are_one() -> None:
    assert scale_for_r2("categorical", classes=2) == pytest.approx(scale_for_r2("bernoulli"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"likelihood": "cauchy"}, "likelihood='cauchy' has no R2 on the scale of the output: use one of gaussian"),
        ({"likelihood": "poisson"}, r"mean_count is missing, .* give mean_count=2\.5, say"),
        ({"likelihood": "negative-binomial", "mean_count": 2.0}, "size is missing"),
        ({"likelihood": "categorical"}, "classes is missing"),
        ({"likelihood": "categorical", "classes": 1}, "classes=1 is out of range"),
        ({"likelihood": "poisson", "mean_count": -1.0}, r"mean_count=-1\.0 is out of range"),
        ({"mean_count": 2.0}, r"mean_count=2\.0 is not for gaussian targets"),
        ({"likelihood": "bernoulli", "sigma0": 2.0}, r"sigma0=2\.0 does not go with likelihood='bernoulli'"),
    ],
)
def test_bad_arguments_are_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        R2D2.from_r2(**arguments)
