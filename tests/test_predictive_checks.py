"""Predictive checks: right predictions are rarely flagged, wrong ones named; classes, counts, figures, refusals."""

import json

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.predictive_checks import check_prediction

N = 300


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *, rows: int = N, shift: float = 0.0, scale: float = 1.0):
    """Targets of noise 1 around 2 x0, two inputs more, and a prediction that is right for no shift and a scale of 1."""
    x = torch.randn(rows, 3, generator=generator(seed), dtype=torch.float64)
    mean = 2 * x[:, 0]
    y = mean + torch.randn(rows, generator=generator(seed + 10_000), dtype=torch.float64)
    samples = (mean + shift).expand(2, -1)
    return x, y, rn.Regression(samples, torch.full_like(samples, scale**2))


def test_right_predictions_are_rarely_flagged():
    """Of 200 right predictions 5% may be flagged, by Bonferroni; more than 20 have a chance below 0.002."""
    flagged = 0
    for seed in range(200):
        x, y, prediction = normal(seed, rows=120)
        flagged += bool(check_prediction(prediction, y, x.numpy()).flags)
    assert flagged <= 20


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"shift": 0.4}, "predictions are too high, by 0."),
        ({"shift": -0.4}, "predictions are too low, by 0."),
        ({"scale": 0.7}, "intervals are too narrow"),
        ({"scale": 1.5}, "intervals are too wide"),
    ],
)
def test_wrong_means_and_deviations_are_named(wrong, words):
    x, y, prediction = normal(1, **wrong)
    found = check_prediction(prediction, y, x.numpy())
    assert words in found.verdict


def test_what_depends_on_an_input_is_named():
    x, y, prediction = normal(2)
    curved = check_prediction(prediction, y + x[:, 1].square() - 1, x.numpy(), ["a", "b", "c"])
    assert "residuals depend on b" in curved.flags
    assert curved.inputs[0].name == "b"
    spread = y + (y - 2 * x[:, 0]) * (x[:, 2].abs() - 0.7)
    assert any("depends on c" in flag for flag in check_prediction(prediction, spread, x.numpy(), list("abc")).flags)


def test_another_shape_is_named():
    x, _, prediction = normal(3)
    skewed = -torch.rand(N, generator=generator(9), dtype=torch.float64).log() - 1  # mean 0, variance 1
    found = check_prediction(prediction, 2 * x[:, 0] + skewed, x.numpy())
    assert "the predictive distributions have another shape than the targets" in found.flags


def test_the_expected_density_is_that_of_the_mixture():
    _, y, prediction = normal(4)
    found = check_prediction(prediction, y).density
    cdf = [float(prediction.cdf(torch.full((N,), edge, dtype=torch.float64)).mean()) for edge in found.edges]
    assert np.allclose(found.expected, np.diff(cdf))
    assert found.expected.sum() == pytest.approx(1, abs=0.05)
    outside = (found.observed < found.low) | (found.observed > found.high)
    assert outside.mean() <= 0.3


def test_p_values_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    x, y, prediction = normal(5)
    found = check_prediction(prediction, y, x.numpy())
    z = (y - 2 * x[:, 0]).numpy()
    assert np.allclose(found.residual, z, atol=1e-6)
    assert found.p_values["mean"] == pytest.approx(2 * stats.norm.sf(abs(z.mean()) * np.sqrt(N)), rel=1e-4)
    assert found.p_values["size"] == pytest.approx(2 * min(stats.chi2(N).cdf(z @ z), stats.chi2(N).sf(z @ z)), rel=1e-4)
    assert found.p_values["shape"] == pytest.approx(stats.kstest(z, "norm").pvalue, abs=0.02)
    own = found.inputs[0]
    column = x[:, int(own.name[-1])].numpy()
    ends = np.quantile(column, np.linspace(0, 1, 11)[1:-1])
    code = np.searchsorted(ends, column)
    assert own.p_mean == pytest.approx(stats.f_oneway(*[z[code == k] for k in range(10)]).pvalue, rel=1e-6)


def test_counts_are_whole_numbers_and_rarely_flagged():
    """Of 60 right predictions more than 10 are flagged with a chance below 0.002."""
    flagged = 0
    for seed in range(60):
        rate = torch.exp(torch.randn(150, generator=generator(seed), dtype=torch.float64))
        y = torch.poisson(rate, generator=generator(seed + 500))
        flagged += bool(check_prediction(rn.Counts(rate.expand(2, -1)), y, rate[:, None].numpy(), seed=seed).flags)
    assert flagged <= 10
    wide = check_prediction(rn.Counts((3 * rate + 2).expand(2, -1)), y)
    assert wide.kind == "counts"
    assert any("too high" in flag for flag in wide.flags)
    assert set(wide.density.edges % 1) == {0.5}


@pytest.mark.parametrize("classes", [2, 4])
def test_classes(classes):
    """Of 60 right predictions more than 10 are flagged with a chance below 0.002; a sharper one is named."""
    flagged = 0
    for seed in range(60):
        logits = 1.5 * torch.randn(200, classes, generator=generator(seed), dtype=torch.float64)
        probs = logits.softmax(1)
        y = torch.multinomial(probs, 1, generator=generator(seed + 900)).flatten()
        flagged += bool(check_prediction(rn.Classification(probs[None]), y, logits.numpy()).flags)
    assert flagged <= 10
    sharp = check_prediction(rn.Classification((4 * logits).softmax(1)[None]), y, logits.numpy())
    assert any("too bold" in flag or "too likely" in flag for flag in sharp.flags)
    timid = check_prediction(rn.Classification((0.2 * logits).softmax(1)[None]), y)
    assert any("too timid" in flag or "too unlikely" in flag for flag in timid.flags)
    assert sharp.density.observed.sum() == pytest.approx(1)
    assert "came true" in repr(sharp.plot_calibration().get_ylabel())


def test_a_posterior_checks_itself_and_draws():
    pytest.importorskip("matplotlib").use("Agg")
    x = torch.randn(160, 3, generator=generator(0))
    y = torch.stack([x[:, 0], x[:, 1].square()], 1) + 0.3 * torch.randn(160, 2, generator=generator(1))
    posterior = rn.fit(rn.BayesianModel(torch.nn.Linear(3, 2)), (x[:100], y[:100]), epochs=40, verbose=False)
    check = posterior.check(x[100:], y[100:], names=["first", "second", "third"], output=1)
    assert any("second" in flag for flag in check.flags)  # a parabola that a line cannot have
    assert len(check.plot().axes) == 4
    assert "second" in check._repr_html_()
    assert json.loads(json.dumps(check.plain()))["inputs"][0]["name"] == "second"


def test_what_cannot_be_checked_is_refused():
    x, y, prediction = normal(6)
    with pytest.raises(rn.DataError, match="a check takes 10 or more"):
        check_prediction(prediction[:5], y[:5])
    with pytest.raises(rn.DataError, match="they must agree"):
        check_prediction(prediction, y[:-1])
    with pytest.raises(rn.DataError, match="not finite"):
        check_prediction(prediction, torch.full_like(y, torch.nan))
    with pytest.raises(rn.DataError, match="cannot be read"):
        check_prediction(prediction, ["a"] * N)
    with pytest.raises(rn.DataError, match="names"):
        check_prediction(prediction, y, x.numpy(), ["a"])
    with pytest.raises(rn.ParameterError, match="output"):
        check_prediction(prediction, y, output=1)
    with pytest.raises(rn.DataError, match="class"):
        check_prediction(rn.Classification(torch.full((1, 20, 2), 0.5)), torch.full((20,), 7))


def test_extreme_rows():
    """A constant input, constant targets, one level, far targets: numbers and no warning."""
    x, y, prediction = normal(7)
    constant = check_prediction(prediction, torch.full_like(y, 1e8), np.ones((N, 1)))
    assert constant.inputs == ()
    assert constant.flags
    assert np.isfinite(constant.residual).all()
    found = check_prediction(prediction, y, (x[:, :1] > 0).double().numpy())
    assert list(found.inputs[0].place) == [0.0, 1.0]
