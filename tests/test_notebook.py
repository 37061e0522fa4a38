"""Predictions, posteriors and relevance as notebooks show them."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import r2d2net as rn
from r2d2net.notebook_tables import html_table

G = torch.Generator().manual_seed(0)


def predictions() -> dict[str, rn.Prediction]:
    samples = torch.randn(20, 12, generator=G)
    probs = torch.softmax(torch.randn(20, 12, 3, generator=G), -1)
    return {
        "numbers": rn.Regression(samples, torch.full((20, 1), 0.25)),
        "own noise": rn.Regression(samples, torch.rand(20, 12, generator=G) + 0.1),
        "one noise": rn.Regression(samples, torch.tensor(0.5)),
        "outputs": rn.Regression(torch.randn(20, 12, 2, generator=G), torch.tensor([0.5, 2.0])),
        "classes": rn.Classification(probs),
        "evidence": rn.DirichletClassification(concentration=1 + 5 * probs),
        "counts": rn.Counts(samples.exp()),
    }


@pytest.mark.parametrize("kind", predictions())
def test_rows_are_those_of_the_whole(kind) -> None:
    whole = predictions()[kind]
    mask = torch.arange(12) % 3 == 0
    table = whole.to_pandas(level=0.8)
    assert len(whole) == len(table) == 12
    for rows, places in (
        (slice(3, 10), range(3, 10)),
        (slice(None, None, -2), range(11, -1, -2)),
        (5, [5]),
        (-1, [11]),
        ([2, 2, 0], [2, 2, 0]),
        (np.array([1, 4]), [1, 4]),
        (mask, [0, 3, 6, 9]),
        (slice(5, 5), []),
    ):
        some = whole[rows]
        assert type(some) is type(whole)
        assert len(some) == len(places)
        if len(places):
            expected = table.iloc[list(places)].reset_index(drop=True)
            pd.testing.assert_frame_equal(some.to_pandas(level=0.8), expected, rtol=1e-5)
    assert len(list(whole)) == 12  # iteration ends


def test_tables_have_the_numbers_of_the_prediction() -> None:
    cases = predictions()
    numbers = cases["numbers"]
    table = numbers.to_pandas(level=0.5)
    assert list(table) == ["mean", "sd", "low", "high"]
    low, high = numbers.interval(0.5)
    np.testing.assert_allclose(table.to_numpy(), torch.stack([numbers.mean, numbers.std, low, high], 1).numpy())
    assert list(cases["outputs"].to_pandas())[:3] == ["mean[0]", "mean[1]", "sd[0]"]
    classes = cases["classes"].to_pandas()
    assert list(classes) == ["class", "p(0)", "p(1)", "p(2)", "entropy"]
    np.testing.assert_allclose(classes[["p(0)", "p(1)", "p(2)"]].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("rows", ["a", [0.5], torch.zeros(3, dtype=torch.bool), [[0, 1]]])
def test_rows_that_are_none_are_refused(rows) -> None:
    with pytest.raises(rn.DataError, match=r"^rows [^\n]*$"):
        predictions()["numbers"][rows]


def test_rows_that_there_are_not() -> None:
    with pytest.raises(IndexError, match="row 12 of 12"):
        predictions()["numbers"][12]


@pytest.mark.parametrize("kind", predictions())
def test_html_and_plots(kind) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    prediction = predictions()[kind]
    shown = prediction._repr_html_()
    assert shown.count("<tr>") == 11  # ten rows and the headings
    assert "first 10 of 12 rows" in shown
    assert "nan" not in shown
    axes = prediction.plot()
    assert axes.get_xlabel().startswith("row")
    assert prediction.plot(ax=axes) is axes
    pyplot.close("all")


def test_strings_are_escaped() -> None:
    assert "<script>" not in html_table("<script>", ["<script>"], [["<script>"]])


def test_posterior_and_relevance(monkeypatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    x = torch.randn(100, 3, generator=G)
    y = 2 * x[:, 0] + 0.1 * torch.randn(100, generator=G)
    model = rn.BayesianModel(rn.nets.mlp(3, [4]))
    posterior = rn.fit(model, (x, y), epochs=5, seed=0, verbose=False)
    summary = posterior.summary(draws=20)
    assert summary["weights"].sum() == posterior.model.size
    name = summary.index[0]
    part = torch.stack([state[name] for state in posterior.state_dicts(20, seed=0)]).double()
    assert summary["rms mean"].iloc[0] == pytest.approx(float(part.mean(0).square().mean().sqrt()), rel=1e-5)
    assert summary["rms sd"].iloc[0] == pytest.approx(float(part.var(0, correction=0).mean().sqrt()), rel=1e-4)
    assert re.search(r"<td>epochs</td><td>5</td>", posterior._repr_html_())
    axes = posterior.plot_history()
    assert len(axes.lines[0].get_xdata()) == 5
    pyplot.close("all")
    relevance = rn.shrinkage.input_relevance(posterior, x, draws=10)
    assert relevance._repr_html_().index("<td>0</td>") < relevance._repr_html_().index("<td>1</td>")
    assert "of 3 inputs kept" in relevance._repr_html_()
    bare = rn.Posterior(posterior.source, posterior.units, flat_target=True)
    assert "SVGI" not in bare._repr_html_()
    with pytest.raises(rn.DataError, match=r"^history has no epoch with a loss"):
        bare.plot_history()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(rn.ParameterError, match=r"^plots need matplotlib: install it by `pip install matplotlib`$"):
        posterior.plot_history()
