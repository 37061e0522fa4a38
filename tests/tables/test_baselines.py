"""Baselines predict what they should, cost no more than they may, and stand beside the model in a run."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from r2d2net.tables import baselines
from r2d2net.tables.baselines import (
    LOGISTIC,
    ORDINAL,
    RIDGE,
    TREES,
    _ProportionalOdds,
    fit_baselines,
    folds_of,
    random_part,
)
from r2d2net.tables.fitting import nothing_found
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import read_training_table
from table_runs import command


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A regression by the first of three columns, noise 0.5, and three classes of which one has four rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["y"] = 100 + 10 * (2 * x[:, 0] + 0.5 * rng.normal(size=400))
    frame["kind"] = np.where(x[:, 1] + rng.normal(size=400) > 0, "up", "down")
    frame.loc[:3, "kind"] = "rare"
    path = tmp_path_factory.mktemp("baselines") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_their_densities_are_honest_about_rows_not_seen(table) -> None:
    """NLL of the truth is log(5 sqrt(2 pi e)) = 3.03 +- 0.08 on 80 rows; trees' training residuals would give more."""
    read = read_training_table(table, Settings.of({"target": "y", "ignore": "kind"}))
    found, notes = fit_baselines(read, 0)
    assert notes == []
    assert list(found) == [RIDGE, TREES]
    errors = {name: np.square(read.y_test - one.center).mean() for name, one in found.items()}
    assert errors[RIDGE] == pytest.approx(25, rel=0.6)
    assert errors[TREES] < 0.4 * read.y_test.var()
    for name, one in found.items():
        # the variance of the density is the expected squared error of new rows, within four standard errors of both
        variance = np.exp(-2 * one.log_density.max() - np.log(2 * np.pi))
        assert variance == pytest.approx(errors[name], rel=0.75)
        assert np.mean(-one.log_density) == pytest.approx(0.5 * np.log(2 * np.pi * np.e * errors[name]), abs=0.15)
    again, _ = fit_baselines(read, 0)
    assert all(np.array_equal(found[name].log_density, again[name].log_density) for name in found)


def test_classes_have_probabilities_that_sum_to_one_even_rare_ones(table) -> None:
    read = read_training_table(table, Settings.of({"target": "kind", "ignore": "y"}))
    found, _ = fit_baselines(read, 0)
    assert list(found) == [LOGISTIC, TREES]
    for one in found.values():
        assert one.center.shape == (len(read.y_test), 3)
        assert one.center.sum(1) == pytest.approx(1)
        picked = one.center[np.arange(len(read.y_test)), read.y_test.astype(int)]
        assert np.exp(one.log_density) == pytest.approx(picked, abs=1e-11)
    shares = np.bincount(read.y.astype(int)) / len(read.y)
    constant = -np.log(shares[read.y_test.astype(int)]).mean()
    assert -found[LOGISTIC].log_density.mean() < constant - 0.1


def test_cost_is_bounded_and_said(table, monkeypatch) -> None:
    read = read_training_table(table, Settings.of({"target": "kind", "ignore": "y"}))
    monkeypatch.setattr(baselines, "MOST_CELLS", 2000)
    monkeypatch.setattr(baselines, "MOST_TREE_INPUTS", 8)
    found, notes = fit_baselines(read, 0)
    assert list(found) == [LOGISTIC]
    drawn, trees = notes
    assert drawn.endswith(" of 320 training rows, drawn at random")
    assert trees == "no boosted trees beside the model: 3 inputs x 3 classes are more than 8"
    classes = np.repeat([0, 1], [997, 3])
    part = random_part(1000, 50, 0, classes)
    assert (classes[part] == 1).sum() >= 2
    assert len(part) <= 54
    folds = folds_of(6, 0, np.array([0, 0, 0, 1, 1, 1]))
    assert sorted(folds[:3]) == sorted(folds[3:]) == [0, 1, 2]


def test_without_scikit_learn_there_is_a_hint(table, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    read = read_training_table(table, Settings.of({"target": "y"}))
    assert fit_baselines(read, 0) == ({}, [baselines.MISSING])


def test_a_run_stands_beside_them_unless_told_not_to(table, tmp_path) -> None:
    options = ["--target", "y", "--ignore", "kind", "--hidden", "0", "--epochs", "40", "--out", tmp_path / "run"]
    done = command("fit", table, *options)
    assert done.code == 0, done.error
    assert RIDGE in done.out
    assert "On 80 test rows better than the best constant by " in done.out
    results = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(results["test"]["baselines"]) == {RIDGE, TREES}
    assert {"rmse", "mae", "r2", "nll"} <= set(results["test"]["baselines"][RIDGE])
    assert results["test"]["baselines"][RIDGE]["rmse"] == pytest.approx(results["test"]["rmse"], rel=0.1)
    assert {"sentence", "warning"} <= set(results["verdict"])
    assert results["verdict"]["comparisons"]["the best constant"]["RMSE"] == 1
    inspected = command("inspect", tmp_path / "run")
    assert "Inputs by their share in the importance; 1 of 3 kept" in inspected.out
    spoilt = pd.read_csv(table)
    spoilt.loc[122, "y"] = 1e6
    spoilt.drop(index=[0, 1]).to_csv(tmp_path / "spoilt.csv", index=False)
    found = command("evaluate", tmp_path / "run", tmp_path / "spoilt.csv", "--json").json["verdict"]
    assert found["rows"] == [121]
    assert "test row 121 dominates RMSE" in found["warning"]
    without = command("fit", table, *options, "--no-baselines", "--overwrite")
    assert RIDGE not in without.out
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["baselines"] == {}


def test_nothing_is_kept_where_there_is_nothing_to_find(tmp_path) -> None:
    rng = np.random.default_rng(1)
    pd.DataFrame(rng.normal(size=(200, 4)), columns=["a", "b", "c", "y"]).to_csv(tmp_path / "null.csv", index=False)
    options = ["--target", "y", "--hidden", "0", "--epochs", "30", "--no-baselines", "--out", tmp_path / "run"]
    done = command("fit", tmp_path / "null.csv", *options)
    assert "None is kept: on " in done.out
    assert "0 of 3 kept" in done.out
    relevance = json.loads((tmp_path / "run" / "relevance.json").read_text())
    assert relevance["nothing_kept"] in done.out
    assert not any(entry["kept"] for entry in relevance["inputs"])
    assert "None is kept: on " in command("inspect", tmp_path / "run").out


@pytest.mark.parametrize(
    ("health", "verdict", "why"),
    [
        ({"verdict": "fits"}, {"useless": False}, None),
        ({"verdict": "fits"}, None, None),
        ({"verdict": "fits"}, {"useless": True}, "on test rows the model is no better than a constant"),
        ({"verdict": "no better than a constant"}, None, "on training rows the fit is no better than a constant"),
    ],
)
def test_why_nothing_is_kept(health, verdict, why) -> None:
    assert nothing_found(health, verdict) == why


def test_many_inputs_that_share_the_importance_are_told_of(tmp_path):
    """Each of 150 inputs has 0.7% of the variance, and together they predict the class well."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 150))
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(150)])
    table["y"] = np.where(x.sum(1) > 0, "up", "down")
    table.to_csv(tmp_path / "many.csv", index=False)
    options = ["--hidden", "0", "--prior", "gaussian", "--epochs", "100", "--no-baselines", "--out", tmp_path / "run"]
    done = command("fit", tmp_path / "many.csv", "--target", "y", *options)
    assert "0 of 150 kept" in done.out
    assert "None is kept: no single input is sure (95%) to take 1% of the output's variance" in done.out
    assert "many share the importance, of which half lies with the first" in " ".join(done.out.split())
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "None is kept: no single input is sure" in page


def test_ordinal_classes_stand_beside_proportional_odds(tmp_path) -> None:
    """y by thresholds -1, 1, 2.5 of 2 a - b + logistic noise: slopes and probabilities are within 0.15 and 0.1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    y = np.digitize(2 * x[:, 0] - x[:, 1] + rng.logistic(size=3000), [-1.0, 1.0, 2.5])
    line = _ProportionalOdds(4, 500).fit(x, y, 1.0)
    assert line.line.coef_[0, :2] == pytest.approx([2, -1], abs=0.15)
    above = 1 / (1 + np.exp(np.array([-1.0, 1.0, 2.5]) - (x[:500] @ [2, -1])[:, None]))
    exact = -np.diff(np.hstack([np.ones((500, 1)), above, np.zeros((500, 1))]), axis=1)
    assert line.predict(x[:500]) == pytest.approx(exact, abs=0.1)
    shares = _ProportionalOdds(4, 500).fit(x, y, 1e-5).predict(x[:1])[0]
    assert shares == pytest.approx(np.bincount(y) / 3000, abs=0.05)  # slopes are shrunk, thresholds are not
    frame = pd.DataFrame({"a": x[:400, 0], "b": x[:400, 1], "level": np.array(["low", "mid", "high", "top"])[y[:400]]})
    frame.to_csv(tmp_path / "levels.csv", index=False)
    levels = ["--target", "level", "--ordinal", "low,mid,high,top", "--hidden", "0", "--epochs", "100"]
    done = command("fit", tmp_path / "levels.csv", *levels, "--out", tmp_path / "run")
    assert done.code == 0, done.error
    assert "ranked probability" in done.out  # the table may break the line before "score"
    assert "ranked probability score" in (tmp_path / "run" / "report.html").read_text()
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    scores = found["test"]
    assert list(scores["baselines"]) == [LOGISTIC, ORDINAL, TREES]
    assert scores["baselines"][ORDINAL]["nll"] < scores["constant"]["nll"] - 0.2
    assert scores["baselines"][ORDINAL]["rps"] == pytest.approx(scores["rps"], abs=0.03)
    assert scores["rps"] < 0.8 * scores["constant"]["rps"]
    assert ORDINAL in found["verdict"]["sentence"]
