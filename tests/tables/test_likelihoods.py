"""`r2d2net fit --likelihood`: every likelihood from file to evaluation, calibrated columns, refusals in one line."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch

from r2d2net.interval_calibration import IntervalCalibration
from r2d2net.registry import NUMBERS
from r2d2net.tables import run_folder
from r2d2net.tables.prediction_columns import prediction_columns
from r2d2net.tables.scores import Scored
from r2d2net.tables.settings import Settings
from table_runs import command


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """A file of counts from 1, which every likelihood of numbers takes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": 1 + rng.poisson(np.exp(1.5 + 0.5 * x[:, 0]))})
    path = tmp_path_factory.mktemp("counts") / "counts.csv"
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", NUMBERS)
def test_every_likelihood_from_file_to_evaluation(counts, name, tmp_path):
    run = tmp_path / "run"
    options = [
        "--hidden",
        "0",
        "--epochs",
        "200",
        "--likelihood",
        name,
        "--task",
        "regression",
        "--out",
        run,
        "--quiet",
    ]
    assert command("fit", counts, "--target", "y", *options).code == 0
    evaluated = command("evaluate", run, counts, "--json").json
    assert evaluated["rmse"] < evaluated["constant"]["rmse"]
    assert np.isfinite(evaluated["nll"])
    assert 0.7 < evaluated["coverage"] <= 1
    rows = list(csv.DictReader(command("predict", run, counts, "--quiet").out.splitlines()))
    assert len(rows) == 120
    if name in ("log-normal", "gamma", "poisson", "negative-binomial"):
        assert min(float(row["low"]) for row in rows) >= 0
    loaded = run_folder.load_run(run)
    assert loaded.settings.likelihood == name


def test_columns_and_coverage_are_calibrated(counts, tmp_path):
    run = tmp_path / "run"
    options = ["--hidden", "0", "--epochs", "20", "--task", "regression", "--out", run, "--quiet"]
    assert command("fit", counts, "--target", "y", *options).code == 0
    fitted = run_folder.load_run(run)
    x, y = np.zeros((5, 2)), np.arange(5.0)
    prediction = fitted.predict(x)
    wide = IntervalCalibration.of(torch.linspace(0.98, 0.999, 99)[:, None])
    rows = prediction_columns(prediction, np.ones(5), np.zeros(5), fitted.task, 0.5, wide)
    own = prediction_columns(prediction, np.ones(5), np.zeros(5), fitted.task, wide.level(0.5))
    np.testing.assert_allclose(rows["high"], own["high"])
    np.testing.assert_allclose(rows["sd"], own["sd"])
    scored = Scored(fitted.task, wide)
    scored.add(prediction, y, 0.5)
    metrics = scored.metrics(fitted.content["baseline"], 0.5)
    inside = ((rows["low"] <= y) & (y <= rows["high"])).mean()
    assert metrics["coverage"] == pytest.approx(inside)
    assert metrics["width"] == pytest.approx((rows["high"] - rows["low"]).mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "a", "--likelihood", "poisson"], "a Poisson likelihood needs counts 0, 1, 2, ..."),
        (["--target", "y", "--likelihood", "normal"], "use one of auto, gaussian, student-t"),
        (
            ["--target", "y", "--likelihood", "student-t", "--algorithm", "lineargibbs", "--hidden", "0"],
            "--algorithm lineargibbs does not suit --likelihood student-t",
        ),
    ],
)
def test_refusals_are_one_line(counts, options, message, tmp_path):
    ended = command("fit", counts, "--task", "regression", *options, "--out", tmp_path / "run")
    assert ended.code == 2
    assert message in ended.error
    assert ended.error.strip().count("\n") == 0
    assert not (tmp_path / "run").exists()


def test_classes_have_no_likelihood_of_numbers(tables, tmp_path):
    options = ["--target", "kind", "--likelihood", "poisson", "--out", tmp_path / "run"]
    ended = command("fit", tables / "train.csv", *options)
    assert ended.code == 2
    assert "--likelihood poisson is for numbers, and the target is a class" in ended.error


def test_a_likelihood_of_numbers_asks_for_regression(tmp_path):
    """Counts from 0 to 4 would else be taken for classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    table = pd.DataFrame({"a": x, "y": rng.poisson(np.exp(0.5 + 0.3 * x)).clip(max=4)})
    table.to_csv(tmp_path / "counts.csv", index=False)
    options = ["--likelihood", "poisson", "--hidden", "0", "--epochs", "20", "--no-baselines"]
    ended = command("fit", tmp_path / "counts.csv", "--target", "y", *options, "--out", tmp_path / "run", "--json")
    assert ended.json["task"]["kind"] == "regression"
    assert ended.json["settings"]["task"] == "regression"
    told = [*options, "--task", "multiclass", "--out", tmp_path / "told"]
    ended = command("fit", tmp_path / "counts.csv", "--target", "y", *told)
    assert "--likelihood poisson is for numbers, and the target is a class" in ended.error


def test_settings_of_older_runs_are_gaussian_and_not_calibrated():
    plain = Settings.of({"target": "y"}).plain()
    older = {name: value for name, value in plain.items() if name not in ("likelihood", "calibrate")}
    settings = Settings.back(json.loads(json.dumps(older)))
    assert (settings.likelihood, settings.calibrate, settings.task) == ("gaussian", False, "auto")
    assert Settings.back(plain).likelihood == "auto"
