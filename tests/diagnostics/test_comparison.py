"""Comparison of models: sums and errors by hand, exact and smoothed rows left out, other scales of y, refusals."""

import math

import pytest
import torch

import r2d2net as rn
from r2d2net.diagnostics.comparison import compared
from r2d2net.diagnostics.row_scores import RowScores, left_out_scores, log_likelihoods
from r2d2net.inference.pareto_smoothing import pareto_weights

N = 120


def rows(seed: int, count: int = N):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=generator)
    return x, 1.5 * x[:, 0] - x[:, 1] + 0.5 * torch.randn(count, generator=generator)


def linear(prior, data, algorithm="lineargibbs", **arguments):
    model = rn.BayesianModel(torch.nn.Linear(4, 1), prior)
    return rn.fit(model, data, algorithm, seed=0, verbose=False, **arguments)


@pytest.fixture(scope="module")
def fits():
    data = rows(0)
    return {
        "r2d2": linear(rn.priors.R2D2.adaptive(), data, epochs=100),
        "shrunk": linear(rn.priors.Gaussian(0.02), data, "svgi", epochs=60),
    }


def test_sums_errors_and_weights_are_those_of_the_rows():
    scores = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores[:, 2] += 1
    found = compared({name: RowScores(scores[:, k], 0.0, "new rows") for k, name in enumerate("abc")})
    assert found.best == "c"
    assert [model.rank for model in found.models] == [0, 1, 2]
    second = found.models[1]
    own, best = scores[:, "abc".index(second.name)], scores[:, 2]
    assert second.elpd == pytest.approx(float(own.sum()))
    assert second.se == pytest.approx(math.sqrt(50 * float(own.var(correction=0))))
    assert second.elpd_diff == pytest.approx(float((best - own).sum()))
    assert second.dse == pytest.approx(math.sqrt(50 * float((best - own).var(correction=0))))
    assert sum(found.weights.values()) == pytest.approx(1)
    assert max(found.weights, key=found.weights.get) == "c"


def test_equal_models_are_not_told_apart_and_others_are():
    scores = torch.randn(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    noise = noise - noise.mean()
    near = compared({"a": RowScores(scores, 0.0, "new rows"), "b": RowScores(scores + 0.1 * noise, 0.0, "new rows")})
    assert "do not tell it from" in near.verdict
    far = compared({"a": RowScores(scores, 0.0, "new rows"), "b": RowScores(scores - 1 + noise, 0.0, "new rows")})
    assert far.models[1].is_behind
    assert far.verdict.startswith("a predicts these 400 rows best, by")
    unsure = compared({"a": RowScores(scores, 0.3, "PSIS-LOO"), "b": RowScores(scores - 1, 0.0, "PSIS-LOO")})
    assert "unreliable for many rows of a (30%)" in unsure.verdict


def test_new_rows_are_scored_by_their_predictive_density(fits):
    x, y = rows(5)
    found = rn.compare(fits, x, y)
    assert found.how == "new rows"
    assert found.best == "r2d2"
    assert found.models[1].is_behind
    expected = float(fits["r2d2"].predict(x, 400).log_prob(y).double().sum())
    assert found.models[0].elpd == pytest.approx(expected, rel=1e-5)
    table = found.to_pandas()
    assert list(table.index) == ["r2d2", "shrunk"]
    assert table.loc["r2d2", "elpd_diff"] == 0
    assert "verdict" not in found._repr_html_()
    assert "r2d2 predicts" in found._repr_html_()
    assert "r2d2 predicts" in str(found)


def test_training_rows_are_left_out_and_what_fits_keep_agrees(fits):
    given, kept = rn.compare(fits, *rows(0)), rn.compare(fits)
    assert given.how == kept.how == "exact LOO and PSIS-LOO"
    assert torch.allclose(given.scores[:, 0], kept.scores[:, 0], atol=1e-4)  # exact, of every row
    assert float((given.scores[:, 1] - kept.scores[:, 1]).abs().max()) < 0.2  # other draws
    assert {model.name for model in given.models} == {"r2d2", "shrunk"}


def test_smoothed_rows_left_out_agree_with_exact_ones(fits):
    """The same chains by both: PSIS from draws of the weights, and with the weights integrated out."""
    posterior = fits["r2d2"]
    exact = left_out_scores(posterior, *rows(0), 400).score
    log_p = log_likelihoods(posterior, *rows(0), 400)
    weights, _ = pareto_weights(-log_p)
    smoothed = torch.logsumexp(weights.log() + log_p, 0)
    assert float((smoothed - exact).abs().mean()) < 0.03
    assert float(log_p.logsumexp(0).sub(math.log(len(log_p))).sum()) > float(exact.sum())  # rows that were seen


def test_densities_of_y_and_of_its_logarithm_are_on_one_scale():
    """Log-normal targets: without the slope of the logarithm the order is reversed."""
    x, y = rows(3, 150)
    y = torch.exp(0.7 * y + 3)
    models = {
        "log": rn.BayesianModel(torch.nn.Linear(4, 1), likelihood=rn.likelihoods.LogNormal()),
        "plain": rn.BayesianModel(torch.nn.Linear(4, 1)),
    }
    fitted = {name: rn.fit(model, (x, y), epochs=60, verbose=False) for name, model in models.items()}
    left, again = rn.compare(fitted, x, y), rn.compare(fitted, *[part[:149] for part in (x, y)])
    assert left.how == "PSIS-LOO"
    assert left.best == again.best == "log"
    assert left.models[0].elpd == pytest.approx(again.models[0].elpd, abs=15)
    with pytest.raises(rn.ParameterError, match="give x and y"):
        rn.compare(fitted)


def test_what_does_not_fit_together_is_refused(fits):
    x, y = rows(0)
    other = linear(rn.priors.Gaussian(), rows(9), "svgi", epochs=60)
    with pytest.raises(rn.DataError, match="different rows"):
        rn.compare({**fits, "other": other})
    with pytest.raises(rn.DataError, match="fitted to these rows"):
        rn.compare({**fits, "other": other}, x, y)
    point = linear(rn.priors.Gaussian(), (x, y), "map", epochs=20)
    with pytest.raises(rn.ParameterError, match="rows are left out by 25 draws"):
        rn.compare({"map": point}, x, y)
    partly = linear(rn.priors.Gaussian(), (x, y), "svgi", epochs=20, validation=0.2)
    with pytest.raises(rn.DataError, match="hold rows that a model was fitted to"):
        rn.compare({"partly": partly}, x, y)
    for wrong in ({}, None, {"a": 3}, [fits["r2d2"]]):
        with pytest.raises(rn.ParameterError, match="posterior"):
            rn.compare(wrong)
    with pytest.raises(rn.ParameterError, match="both x and y"):
        rn.compare(fits, x)
    with pytest.raises(rn.DataError, match="they must agree"):
        rn.compare(fits, x[:5], y[:4])


def test_classes_and_counts_and_a_single_model():
    x, y = rows(4)
    classes = rn.BayesianModel(torch.nn.Linear(4, 2), likelihood=rn.likelihoods.Categorical())
    found = rn.compare({"only": rn.fit(classes, (x, (y > 0).long()), epochs=40, verbose=False)})
    assert found.verdict.startswith("only predicts these 120 rows best")
    assert found.weights == {"only": 1.0}
    counts = rn.BayesianModel(torch.nn.Linear(4, 1), likelihood=rn.likelihoods.Poisson())
    numbers = torch.poisson(torch.exp(0.5 * y), generator=torch.Generator().manual_seed(0))
    found = rn.compare({"counts": rn.fit(counts, (x, numbers), epochs=40, verbose=False)}, x, numbers)
    assert found.how == "PSIS-LOO"
    assert math.isfinite(found.models[0].elpd)


def test_plot(fits):
    pytest.importorskip("matplotlib").use("Agg")
    axes = rn.compare(fits).plot()
    assert "nats more than the best" in axes.get_xlabel()
