"""`r2d2net fit | predict | evaluate | inspect` as a user meets them."""

import json
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from r2d2net.errors import ParameterError
from r2d2net.estimators import R2D2Regressor
from r2d2net.report.run_page import _candidates
from r2d2net.tables.settings import Settings
from table_runs import command, make_table

PARTS = {
    *("run.json", "model", "novelty.safetensors", "metrics.json", "relevance.json", "history.json"),
    *("test_predictions.csv", "figures", "report.html", "effects.json", "checks.json", "background.safetensors"),
    "manifest.json",
}


def test_fit_writes_a_run_and_says_what_it_did(price_run):
    folder, ended = price_run
    assert ended.code == 0, ended.error
    assert "task: regression (detected; --task overrides)" in ended.error
    assert "rows: 280 training, 40 validation, 80 test" in ended.error
    assert re.search(r"\d+ cells missing, filled in \(the median.*\): z \d+", ended.error)
    assert "column name left out: 320 different texts" in ended.error
    assert {path.name for path in folder.iterdir()} == PARTS
    assert {path.name for path in (folder / "figures").iterdir()} == {
        *("predictions.svg", "errors.svg", "calibration.svg", "inputs.svg", "learning-curve.svg"),
    }
    found = ended.json
    assert found["test"]["rmse"] < 1 < 2.5 < found["test"]["constant"]["rmse"]
    assert found["test"]["nll"] < found["test"]["constant"]["nll"]
    assert 0.8 <= found["test"]["coverage"] <= 1
    assert [one["name"] for one in found["inputs"]][:2] == ["x", "group"]
    run = json.loads((folder / "run.json").read_text())
    assert {"settings", "seed", "versions", "commit", "written", "columns", "task", "data"} <= set(run)
    assert run["data"]["file"] == "train.csv"
    page = (folder / "report.html").read_text()
    assert page.count("<svg") >= 6
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # needs no other file
    assert re.search(r"2024-01-\d\d to 2024-10-\d\d, mean 2024-0\d-\d\d, sd [\d.]+ days; .* 2024-0\d-\d\d<", page)


def test_test_rows_are_those_of_the_file(price_run, tables):
    folder, ended = price_run
    rows, file = pd.read_csv(folder / "test_predictions.csv"), pd.read_csv(tables / "train.csv")
    np.testing.assert_allclose(rows["observed"], file["price"][rows["row"] - 1])
    metrics = ended.json["test"]
    assert metrics["rmse"] == pytest.approx(np.sqrt(np.square(rows["mean"] - rows["observed"]).mean()))
    assert metrics["coverage"] == pytest.approx(
        ((rows["low"] <= rows["observed"]) & (rows["observed"] <= rows["high"])).mean()
    )


def test_classes(kind_run, tables):
    folder, ended = kind_run
    assert ended.code == 0, ended.error
    assert "task: binary of high, low (detected; --task overrides)" in ended.error
    assert "accuracy" in ended.out
    assert "best constant" in ended.out
    assert (folder / "figures" / "reliability.svg").exists()
    predicted = command("predict", folder, tables / "new.csv", "--keep", "name,kind", "-o", tables / "kinds.csv")
    assert predicted.code == 0, predicted.error
    rows = pd.read_csv(tables / "kinds.csv")
    written = "name kind prediction p(high) p(low) entropy typicality unlike filled"
    assert list(rows) == written.split()
    np.testing.assert_allclose(rows["p(high)"] + rows["p(low)"], 1, rtol=1e-5)
    p = rows[["p(high)", "p(low)"]].to_numpy()
    np.testing.assert_allclose(rows["entropy"], -(p * np.log(p)).sum(1), rtol=1e-3, atol=1e-4)
    evaluated = command("evaluate", folder, tables / "new.csv", "--json", "--quiet").json
    assert evaluated["accuracy"] == pytest.approx((rows["prediction"] == rows["kind"]).mean())
    assert evaluated["accuracy"] > 0.8
    assert evaluated["rows"] == 200


def test_predictions_are_the_same_by_blocks_to_any_file_and_beside_strange_columns(price_run, tables, monkeypatch):
    folder, _ = price_run
    new = pd.read_csv(tables / "new.csv")
    whole = command("predict", folder, tables / "new.csv")
    assert whole.code == 0, whole.error
    lines = whole.out.splitlines()
    assert lines[0] == "mean,sd,low,high,typicality,unlike,filled"
    assert len(lines) == 201
    other = new.drop(columns=["price", "kind"])[["name", "group", "x", "z", "day"]].assign(extra=1)
    other.to_parquet(tables / "new.parquet")
    monkeypatch.setattr("r2d2net.tables.run_folder.MOST_ROWS", 32)
    by_blocks = command("predict", folder, tables / "new.parquet", "-o", tables / "out.parquet", "--json")
    assert by_blocks.code == 0, by_blocks.error
    assert "ignored: 'extra'" in by_blocks.error
    assert by_blocks.json["rows"] == 200
    rows = pd.read_parquet(tables / "out.parquet")
    first = pd.read_csv(tables / "new.csv").assign(
        **{k: [float(line.split(",")[i]) for line in lines[1:]] for i, k in enumerate(["mean", "sd", "low", "high"])}
    )
    for name in ("mean", "sd", "low", "high"):
        np.testing.assert_allclose(rows[name], first[name], rtol=1e-4)
    as_json = [json.loads(line) for line in command("predict", folder, tables / "new.csv", "--json").out.splitlines()]
    np.testing.assert_allclose([row["mean"] for row in as_json], first["mean"], rtol=1e-4)
    narrow = command("predict", folder, tables / "new.csv", "--level", "0.5").out.splitlines()
    low, high = map(float, narrow[1].split(",")[2:4])
    assert first["low"][0] < low < high < first["high"][0]


def test_rows_unlike_the_training_rows_are_flagged(price_run, tables):
    folder, _ = price_run
    new = make_table(100, seed=2)
    new.loc[:49, "x"] += 10
    new.loc[50:59, "group"] = "violet"
    new.to_csv(tables / "strange.csv", index=False)
    ended = command("predict", folder, tables / "strange.csv", "-o", tables / "flags.csv")
    flags = pd.read_csv(tables / "flags.csv")["unlike"]
    assert flags[:60].all()
    assert flags[60:].mean() < 0.2
    assert "10 cells of levels unknown to the model: group 10" in ended.error
    assert "1% expected of rows like them" in ended.error


def test_missing_columns_are_listed_and_an_older_output_is_kept(price_run, tables):
    folder, _ = price_run
    pd.read_csv(tables / "new.csv").drop(columns=["x", "group"]).to_csv(tables / "lacking.csv", index=False)
    (tables / "precious.csv").write_text("precious")
    ended = command("predict", folder, tables / "lacking.csv", "-o", tables / "precious.csv")
    assert (ended.code, ended.out) == (2, "")
    path = tables / "lacking.csv"
    assert ended.error == f"error: {path} lacks the columns 'x', 'group': add them\n"
    # a fault in the last block
    text = (tables / "new.csv").read_text()
    (tables / "torn.csv").write_text(text + "1,2,3,4,5,6,7,8,9\n")
    ended = command("predict", folder, tables / "torn.csv", "-o", tables / "precious.csv")
    assert ended.code == 2
    assert (tables / "precious.csv").read_text() == "precious"
    assert command("predict", folder, tables / "torn.csv").out == ""
    assert not list(tables.glob(".precious*"))


def test_inspect_shows_prior_weights_and_inputs(price_run):
    folder, _ = price_run
    found = command("inspect", folder, "--json").json
    assert found["weights"] == 10 * 14 + 10 + 10 + 1  # x, z, z missing, three groups, day and seven weekdays
    read = {column["name"]: (column["kind"], column["read"]) for column in found["columns"]}
    assert read["group"][1].startswith("3 levels: ")
    assert read["z"][1].endswith("and an input says so")
    assert read["day"][1].endswith("used as trend and weekday")
    assert read["name"][0] == read["kind"][0] == "left out"
    assert 0 < found["effective_weights"] < found["weights"]
    assert 0.3 < found["noise_sd"] < 1
    assert {one["name"] for one in found["inputs"] if one["kept"]} == {"x", "group"}
    shown = command("inspect", folder).out
    assert "R2D2(a_pi=" in shown
    assert "of which the data determine" in shown


def test_an_existing_run_is_kept_unless_told_and_unless_the_new_one_can_be(price_run, tables):
    folder, _ = price_run
    before = (folder / "run.json").read_bytes()
    again = ["fit", tables / "train.csv", "--target", "price", "--out", folder, "--hidden", "0", "--epochs", "1"]
    ended = command(*again)
    assert ended.code == 2
    assert "holds a run: give another folder, --overwrite, or --resume" in ended.error
    ended = command(*again, "--overwrite", "--algorithm", "map")  # refused before the fit begins
    assert ended.code == 2
    assert "--algorithm map does not suit --prior r2d2" in ended.error
    assert (folder / "run.json").read_bytes() == before
    assert {path.name for path in folder.iterdir()} == PARTS
    (tables / "mine").mkdir()
    (tables / "mine" / "thesis.txt").write_text("precious")
    ended = command(*again[:4], "--out", tables / "mine", "--overwrite")
    assert ended.code == 2
    assert "is not empty and holds no run" in ended.error


def test_overwrite_replaces_a_run(tables):
    fit = [
        "fit",
        tables / "train.csv",
        "--target",
        "price",
        "--out",
        tables / "twice",
        "--hidden",
        "0",
        "--epochs",
        "1",
    ]
    assert command(*fit).code == 0
    assert command(*fit, "--overwrite", "--seed", "5", "--quiet").out == ""
    assert json.loads((tables / "twice" / "run.json").read_text())["seed"] == 5
    assert {path.name for path in (tables / "twice").iterdir()} == PARTS
    ended = command("fit", "--resume", tables / "twice", "--json")
    assert ended.code == 0
    assert "there is nothing left to do" in ended.error
    assert ended.json["settings"]["seed"] == 5


@pytest.mark.parametrize("name", ["predict", "explain", "inspect"])
def test_paragraphs_of_a_help_text_are_broken_by_the_terminal_alone(name, monkeypatch):
    """A line of a paragraph ends where the first word of the next has no room."""
    monkeypatch.setenv("COLUMNS", "80")
    text = command(name, "--help").out.partition("Usage")[2].partition("╭")[0]
    lines = [line.strip() for line in text.splitlines()]
    pairs = [(line, after) for line, after in pairwise(lines) if line and after]
    assert len(pairs) > 2
    assert all(len(line) + 1 + len(after.split()[0]) > 78 for line, after in pairs)


@pytest.mark.parametrize("kind", ["json", "toml"])
def test_config_files_have_the_same_names_and_the_command_line_wins(tables, kind):
    values = {
        "data": str(tables / "train.csv"),
        "target": "price",
        "epochs": 1,
        "hidden": [3],
        "batch-size": 50,
        "seed": 3,
    }
    text = json.dumps(values) if kind == "json" else "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
    config = tables / f"fit.{kind}"
    config.write_text(text)
    ended = command("fit", "--config", config, "--seed", "4", "--out", tables / f"by-{kind}", "--json", "--test", "0")
    assert ended.code == 0, ended.error
    settings = ended.json["settings"]
    assert (settings["seed"], settings["hidden"], settings["batch_size"]) == (4, [3], 50)
    assert ended.json["test"] is None
    config.write_text(text.replace("epochs", "epoch"))
    ended = command("fit", "--config", config)
    assert ended.code == 2
    assert f"--config {config}: 'epoch' is no option: use target, task, prior" in ended.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "cost"], "--target cost is no column of"),
        (["--target", "price", "--epochs", "0"], "--epochs 0 is out of range: use a whole number from 1"),
        (["--target", "price", "--prior", "flat"], "--prior flat is no choice: use one of r2d2"),
        (["--target", "price", "--hidden", "a"], "--hidden a is out of range: use widths such as 50,50"),
        (["--target", "price", "--hidden", "99999,99999"], "--hidden 99999,99999 makes"),
        (["--target", "price", "--test", "0.5", "--validation", "0.5"], "leave a tenth to train on"),
        (["--target", "name"], "--target name has 400 different values"),
        ([], "--target is missing: name the column to predict"),
    ],
)
def test_bad_options_are_one_line(tables, arguments, message):
    ended = command("fit", tables / "train.csv", *arguments, "--out", tables / "never")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.error
    assert ended.error.count("\n") == 1
    assert not (tables / "never").exists()


def test_defaults_are_those_of_the_estimators():
    estimator, settings = R2D2Regressor(), Settings(target="y")
    for name in ("activation", "time", "epochs", "batch_size", "patience", "restarts", "draws"):
        assert getattr(settings, name) == getattr(estimator, name), name
    assert estimator.searches
    assert Settings.of({"target": "y"}).stacked
    for name, value in (("hidden", "8"), ("prior", "r2d2"), ("algorithm", "svgi"), ("validation", 0.1), ("epochs", 3)):
        assert not Settings.of({"target": "y", name: value}).stacked, name
    x = np.random.default_rng(0).normal(size=(30, 2))
    one = R2D2Regressor(epochs=2, random_state=0).fit(x, x[:, 0])
    assert one._network["hidden"] == list(settings.hidden)
    assert one.posterior_.settings["algorithm"]["type"].lower() == settings.algorithm
    assert (
        one.posterior_.settings["model"]
        == R2D2Regressor(settings.hidden, prior=settings.prior, epochs=2, random_state=0)
        .fit(x, x[:, 0])
        .posterior_.settings["model"]
    )


def test_a_bound_on_the_search_needs_a_search():
    with pytest.raises(ParameterError, match=r"time=5.0 bounds a search among several models, and prior asks for one"):
        Settings.of({"target": "y", "time": 5, "prior": "r2d2"})
    with pytest.raises(ParameterError, match="use a number of seconds above 0"):
        Settings.of({"target": "y", "time": -1})


def test_every_command_has_help_with_an_example():
    for words in (
        ["fit"],
        ["predict"],
        ["explain"],
        ["evaluate"],
        ["inspect"],
        ["priors"],
        ["demo"],
        ["reproduce"],
        ["report"],
        ["data", "list"],
        ["data", "verify"],
        ["data", "fetch"],
    ):
        ended = command(*words, "--help")
        assert ended.code == 0, words
        text = " ".join(ended.out.replace("│", " ").split())
        assert f"example `r2d2net {' '.join(words)}" in text, words
        assert "--json" in text, words
        assert "--quiet" in text, words
        assert "--seed" in text, words


@pytest.mark.parametrize("classes", [["-2", "-1"], ["2", "10"], [str(i) for i in range(1, 11)], ["b", "a"]])
def test_classes_in_any_order_keep_their_names(tmp_path, classes):
    """Numbers as texts have another order than numbers. One class for each cluster: every row is clear."""
    rng = np.random.default_rng(0)
    level = np.arange(300) % len(classes)
    angle = 2 * np.pi * level / len(classes)
    x = 5 * np.c_[np.cos(angle), np.sin(angle)] + 0.2 * rng.normal(size=(300, 2))
    table = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": np.array(classes)[level]})
    table.to_csv(tmp_path / "data.csv", index=False)
    run = tmp_path / "run"
    options = ["--target", "y", "--prior", "gaussian", "--hidden", "20", "--epochs", "60", "--task", "auto"]
    ended = command("fit", tmp_path / "data.csv", *options, "--json", "--out", run)
    assert ended.code == 0, ended.error
    assert ended.json["test"]["accuracy"] > 0.9
    out = tmp_path / "out.csv"
    assert command("predict", run, tmp_path / "data.csv", "-o", out).code == 0
    predicted = pd.read_csv(out, dtype=str)
    assert (predicted["prediction"] == table["y"]).mean() > 0.9
    assert command("evaluate", run, tmp_path / "data.csv", "--json").json["accuracy"] > 0.9


def test_words_for_nothing_are_words_among_texts(tmp_path):
    """NA is a class or a level as any other; among numbers it is nothing."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    table = pd.DataFrame(
        {"x": x.astype(str), "country": rng.choice(["NA", "FR"], 200), "y": np.where(x > 0, "NA", "EU")}
    )
    table.loc[:39, "x"] = "NA"
    table.to_csv(tmp_path / "data.csv", index=False)
    options = ["--target", "y", "--hidden", "0", "--epochs", "30", "--json", "--out", tmp_path / "run"]
    ended = command("fit", tmp_path / "data.csv", *options)
    assert ended.code == 0, ended.error
    assert "task: binary of EU, NA" in ended.error
    assert "40 cells missing, filled in" in ended.error
    used = json.loads((tmp_path / "run" / "run.json").read_text())["columns"]["used"]
    assert [(one["name"], one["kind"]) for one in used] == [("x", "number"), ("country", "category")]


def test_predictions_do_not_replace_the_rows_nor_go_by_another_name(price_run, tables):
    folder, _ = price_run
    before = (tables / "new.csv").read_bytes()
    ended = command("predict", folder, tables / "new.csv", "-o", tables / "new.csv")
    assert ended.code == 2
    assert "is the file of the rows itself: give another name" in ended.error
    assert (tables / "new.csv").read_bytes() == before
    ended = command("predict", folder, tables / "new.csv", "-o", tables / "new.xlsx")
    assert ended.code == 2
    assert "predictions are written as .csv or .parquet" in ended.error


def test_filled_cells_are_counted_and_rows_with_unheard_of_gaps_are_unlike(price_run, tables):
    """z had gaps in training, x and group had none."""
    folder, _ = price_run
    new = make_table(40, seed=3)
    new["z"] = 0.0
    new.loc[0:4, "z"] = np.nan
    new["x"] = new["x"].clip(-1, 1).astype(object)
    new.loc[5:7, "x"] = ["", "oops", "inf"]
    new.loc[7:8, "group"] = ""
    new.to_csv(tables / "gaps.csv", index=False)
    ended = command("predict", folder, tables / "gaps.csv", "-o", tables / "filled.csv")
    assert ended.code == 0, ended.error
    rows = pd.read_csv(tables / "filled.csv")
    assert rows["filled"].tolist() == [1] * 7 + [2, 1] + [0] * 31
    assert rows["unlike"][5:9].all()
    assert not rows["unlike"][:5].any()
    assert ended.error.count("9 of 40 rows are predicted with cells filled in: see the column filled") == 1
    new.assign(x="-").to_csv(tables / "no-x.csv", index=False)
    for name in ("predict", "evaluate"):
        ended = command(name, folder, tables / "no-x.csv")
        assert (ended.code, ended.out) == (2, "")
        assert "column 'x' has no filled cell, training rows had no gaps there: give its values" in ended.error
    new.assign(z="0,5").to_csv(tables / "commas.csv", index=False, sep=";")
    for name in ("predict", "evaluate"):
        ended = command(name, folder, tables / "commas.csv")
        assert (ended.code, ended.out) == (2, "")
        assert re.search(
            r"column 'z': 40 of 40 filled cells cannot be read: write them as .*decimal points", ended.error
        )
    new.assign(x=0, group="red", z=np.nan).to_csv(tables / "no-z.csv", index=False)
    assert command("predict", folder, tables / "no-z.csv").code == 0


def test_names_with_commas_and_row_numbers_on_the_command_line(tmp_path):
    rows = 40
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a,b": rng.normal(size=rows), "a": rng.normal(size=rows), "month": np.arange(rows)})
    table["y"] = table["month"] + rng.normal(size=rows)
    table.to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "y", "--hidden", "0", "--epochs", "1", "--out", tmp_path / "run"]
    ended = command(*fit, "--ignore", "a,b")
    assert ended.code == 0, ended.error
    assert "column month left out: the number of the row; --keep 'month' uses it" in ended.error
    ended = command(*fit, "--overwrite", "--ignore", "a", "--ignore", "a,b", "--keep", "month", "--json")
    assert ended.code == 0, ended.error
    assert [one["name"] for one in ended.json["inputs"]] == ["month"]
    ended = command("predict", tmp_path / "run", tmp_path / "data.csv", "--keep", "a,b", "--keep", "y,a")
    assert ended.out.startswith('"a,b",y,a,mean,sd')


def test_marks_of_numbers_and_zeros_of_codes_from_fit_to_predict(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(500, 5000, 200)
    table = pd.DataFrame({"price": [f"${v:,.2f}" for v in x], "code": rng.choice(["01", "2"], 200), "y": x + 1})
    table.to_csv(tmp_path / "data.csv", index=False, encoding="utf-16")
    run = tmp_path / "run"
    options = ["--target", "y", "--hidden", "0", "--epochs", "100", "--out", run]
    ended = command("fit", tmp_path / "data.csv", *options, "--json")
    assert ended.code == 0, ended.error
    assert re.search(r"column price: '\$\d,\d{3}\.\d\d' is read as the number \d{4}", ended.error)
    assert "column code: '01' has leading zeros, so it is read as codes, not numbers" in ended.error
    assert ended.json["test"]["r2"] > 0.9
    table.to_csv(tmp_path / "new.csv", index=False)
    assert command("evaluate", run, tmp_path / "new.csv", "--json").json["r2"] > 0.9


@pytest.mark.parametrize("options", [[], ["--restarts", "2"]])
def test_classes_are_trained_and_validated_by_their_shares(tmp_path, monkeypatch, options):
    """The rows that the fit is given: of a class of ten rows one validates, whatever the seed."""
    from r2d2net.estimators import perceptron as base

    seen = []

    def spied(model, data, *arguments, **named):
        seen.append((data[1], named["validation"][1]))
        return real(model, data, *arguments, **named)

    real = base.fit
    monkeypatch.setattr(base, "fit", spied)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=100), "y": ["rare"] * 10 + ["often"] * 90})
    table.to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "y", "--hidden", "0", "--epochs", "1", "--out", tmp_path / "run"]
    ended = command(*fit, *options)
    assert ended.code == 0, ended.error
    assert "rows: 70 training, 10 validation, 20 test" in ended.error
    assert [np.bincount(part).tolist() for part in seen[0]] == [[63, 7], [9, 1]]


def test_the_page_lists_the_models_of_stacking():
    entry = {"prior": "R2D2", "algorithm": "MCLMC", "spread": 1.0}
    candidates = [
        {"name": "linear, R2D2", "weight": 0.25, "score": -5.5, **entry},
        {"name": "network, R2D2", "weight": 0.75, "score": -5.25, **entry},
        {"name": "broken | model", "weight": 0.0, "score": None, **entry},
    ]
    lines = _candidates({"posterior": {"candidates": candidates}}).splitlines()
    assert lines[2:] == [
        "| network, R2D2 | MCLMC | 75% | 5.25 |",
        "| linear, R2D2 | MCLMC | 25% | 5.5 |",
        r"| broken \| model | MCLMC | 0% | not fitted |",
    ]
    assert _candidates({"posterior": {"algorithm": "SVGI"}}) == ""


def test_a_file_without_rows_cannot_be_evaluated(tables, price_run, tmp_path):
    header = (tables / "new.csv").read_text().splitlines()[0]
    (tmp_path / "none.csv").write_text(header + "\n")
    done = command("evaluate", price_run[0], tmp_path / "none.csv")
    assert done.code == 2
    assert done.error.strip().splitlines()[-1].endswith("none.csv has no row with a known price: give at least one")
