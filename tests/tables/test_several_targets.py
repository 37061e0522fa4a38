"""`r2d2net fit --target a,b`: several targets from file to page, predictions, evaluation and explanation."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch

import r2d2net as rn
from browser import look, needs_browser
from r2d2net.estimators import R2D2Regressor
from r2d2net.inference import LinearGibbs
from r2d2net.interval_calibration import IntervalCalibration
from r2d2net.likelihoods import Gamma, Gaussian, Heteroscedastic, LogNormal, NegativeBinomial, Poisson, StudentT
from r2d2net.likelihoods.base import Unit
from r2d2net.priors import R2D2
from r2d2net.priors import Gaussian as Normal
from r2d2net.run.stack_candidates import Candidate
from r2d2net.tables import run_folder
from table_runs import command

SMALL = ["--hidden", "8", "--epochs", "60", "--quiet"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2))
    noise = rng.normal(size=(240, 2))
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1]})
    frame["near"] = 100 + 20 * x[:, 0] + 4 * noise[:, 0]
    frame["far"] = 0.03 * x[:, 1] - 0.02 * x[:, 0] + 0.004 * noise[:, 1]
    frame["kind"] = np.where(x[:, 0] > 0, "up", "down")
    frame["near,far"] = 3 * x[:, 0] + noise[:, 0]
    path = tmp_path_factory.mktemp("several") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table):
    options = [
        "--target",
        "far, near",
        "--ignore",
        "kind",
        "--ignore",
        "near,far",
        *SMALL,
        "--out",
        table.parent / "run",
    ]
    ended = command("fit", table, *options)
    assert ended.code == 0, ended.error
    return table.parent / "run"


def test_predictions_have_columns_of_each_target(run, table):
    rows = list(csv.DictReader(command("predict", run, table, "--quiet").out.splitlines()))
    names = [f"{target}_{part}" for target in ("far", "near") for part in ("mean", "sd", "low", "high")]
    assert list(rows[0]) == [*names, "typicality", "unlike", "filled"]
    truth = pd.read_csv(table)
    for target in ("far", "near"):
        mean, low, high = (
            np.array([float(row[f"{target}_{part}"]) for row in rows]) for part in ("mean", "low", "high")
        )
        assert np.corrcoef(mean, truth[target])[0, 1] > 0.95
        assert 0.8 < ((low <= truth[target]) & (truth[target] <= high)).mean() <= 1
    loaded = R2D2Regressor.load(run / "model")
    assert loaded.predict([[0.0, 0.0]]).shape == (1, 2)


def test_each_target_has_scores_baselines_and_a_verdict(run):
    results = json.loads((run / "metrics.json").read_text())
    for target, scores in results["test"]["targets"].items():
        assert scores["rmse"] < 0.5 * scores["constant"]["rmse"], target
        assert set(scores["baselines"]) == {"ridge regression", "boosted trees"}
        assert f"for {target}, on 48 test rows" in results["verdict"]["sentence"]
    assert set(results["verdict"]["comparisons"]) == {"far", "near"}
    assert not results["verdict"]["useless"]
    # the joint density of two targets that are nearly independent is the sum of theirs
    assert results["test"]["nll"] == pytest.approx(sum(s["nll"] for s in results["test"]["targets"].values()), abs=0.1)


def test_the_page_has_sections_of_each_target(run):
    page = (run / "report.html").read_text()
    for target in ("far", "near"):
        for part in (
            f"{target}: Predicted and observed",
            f"{target}: Scores",
            f"{target}: Worst rows",
            f"x on {target}",
        ):
            assert part in page, part
    assert {path.name for path in (run / "figures").iterdir()} >= {"predictions-1.svg", "predictions-2.svg"}
    effects = json.loads((run / "effects.json").read_text())["effects"]
    assert [entry["target"] for entry in effects[:2]] == ["far", "near"]


@needs_browser
def test_the_page_is_sound_in_a_browser(run):
    found = look(run / "report.html", width=420)
    assert (found["console"], found["outside"]) == ([], [])
    assert found["scroll"] <= 420


def test_evaluate_inspect_and_explain(run, table):
    scores = command("evaluate", run, table, "--json").json
    assert scores["targets"]["near"]["rmse"] < 8
    assert "far: 240 rows of table.csv" in command("evaluate", run, table).out
    inspected = command("inspect", run, "--json").json
    assert inspected["noise_sds"]["near"] == pytest.approx(4, rel=0.4)
    assert inspected["noise_sds"]["far"] == pytest.approx(0.004, rel=0.5)
    assert "noise of far" in command("inspect", run).out
    few = ["--rows", "2", "--draws", "10"]
    for target, options in (("far", []), ("near", ["--target", "near"])):
        explained = command("explain", run, table, *few, *options, "--json").json
        assert explained["target"] == target
        parts = explained["rows"][0]
        total = parts["average"] + sum(part["contribution"] for part in parts["contributions"])
        assert total == pytest.approx(parts["prediction"], rel=1e-4, abs=1e-5)
    ended = command("explain", run, table, "--target", "kind")
    assert ended.code == 2
    assert "--target kind is no target of the run: use far or near" in ended.error


def test_rows_that_lack_a_target_are_left_out(run, table, tmp_path):
    frame = pd.read_csv(table).head(20)
    frame.loc[3, "far"] = np.nan
    frame.to_csv(tmp_path / "gap.csv", index=False)
    ended = command("evaluate", run, tmp_path / "gap.csv", "--json")
    assert ended.json["rows"] == 19
    frame.drop(columns="near").to_csv(tmp_path / "less.csv", index=False)
    assert "lacks the target 'near'" in command("evaluate", run, tmp_path / "less.csv").error


def test_a_name_with_a_comma_is_a_name_first(table, tmp_path):
    options = ["--target", "near,far", "--hidden", "0", "--epochs", "5", "--no-baselines", "--quiet"]
    assert command("fit", table, *options, "--out", tmp_path / "run").code == 0
    assert run_folder.load_run(tmp_path / "run").task.targets == ("near,far",)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("far,kind", "are several and not all numbers (far is regression, kind is binary): fit each by itself"),
        ("far,nowhere", "--target nowhere is no column of"),
        ("far,far", "--target far,far names a column twice: name each once"),
    ],
)
def test_refusals_are_one_line(table, target, message, tmp_path):
    ended = command("fit", table, "--target", target, "--out", tmp_path / "run")
    assert ended.code == 2
    assert message in ended.error
    assert ended.error.strip().count("\n") == 0


@pytest.mark.parametrize("target", ["far", "far, near"])
def test_a_target_is_not_ignored(table, target, tmp_path):
    ended = command("fit", table, "--target", target, "--ignore", "kind,far", "--out", tmp_path / "run")
    assert (ended.code, ended.error.strip().count("\n")) == (2, 0)
    assert "--ignore far is to be predicted: leave it out here, as a target is no input, or of --target" in " ".join(
        ended.error.split()
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "likelihood",
    [Gaussian(), Heteroscedastic(), StudentT(), LogNormal(), Gamma(), Poisson(True), NegativeBinomial()],
    ids=repr,
)
def test_one_output_is_the_prediction_of_a_target_by_itself(likelihood):
    y = 1.0 + torch.arange(24).reshape(12, 2) % 5
    width, noise = likelihood.outputs(y), likelihood.init(likelihood.network_scale(y))
    outputs = 0.1 * torch.randn(4, 12, width, generator=torch.Generator().manual_seed(0))
    prediction = likelihood.predict(outputs, noise, Unit(torch.zeros(2), torch.ones(2)))
    parts = [prediction.of_output(j) for j in range(2)]
    for j, part in enumerate(parts):
        torch.testing.assert_close(part.mean, prediction.mean[:, j])
        torch.testing.assert_close(part.quantile(0.9), prediction.quantile(0.9)[:, j])
        torch.testing.assert_close(part.std, prediction.std[:, j])
        assert part.log_prob(y[:, j]).shape == (12,)
        assert part.of_output(0) is part
    calibration = IntervalCalibration.of(torch.rand(120, 2, generator=torch.Generator().manual_seed(1)))
    for j, part in enumerate(parts):
        for whole, own in zip(
            calibration.interval(prediction, 0.8), calibration.of_output(j).interval(part, 0.8), strict=True
        ):
            torch.testing.assert_close(own, whole[:, j])


def test_several_models_of_several_targets_are_stacked(monkeypatch):
    linear = LinearGibbs(chains=2, loo_draws=0)
    models = [Candidate(f"linear, {type(p).__name__}", "linear", p, linear, 60) for p in (Normal(), R2D2())]
    monkeypatch.setattr(rn.run.stacking, "candidates_for", lambda shape, likelihood: models)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=draw)
    y = torch.stack([x[:, 0] + 0.1 * torch.randn(40, generator=draw), 5 - 2 * x[:, 1]], 1)
    posterior = rn.run.stacking.fit_stacked((x, y), Gaussian(), hidden=(3,), outputs=2, jobs=1, verbose=False)
    torch.testing.assert_close(posterior.predict(x, 200).mean, y, atol=0.5, rtol=0)  # five deviations of the noise
