"""`r2d2net explain`: contributions that add up, a background without rows of training, one-line errors."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from browser import look, needs_browser
from r2d2net.tables import background, explaining
from r2d2net.tables.background import ROWS, learn_background
from signed_folders import sign
from table_runs import command, make_table


def sums(entry):
    return sum(part["contribution"] for part in entry["contributions"])


@pytest.mark.parametrize("most", [20, 3])  # all inputs told apart, or the last ones as one
def test_contributions_add_up_to_prediction_minus_average(price_run, kind_run, tables, monkeypatch, most):
    monkeypatch.setattr(explaining, "MOST_INPUTS", most)
    for run, _ in (price_run, kind_run):
        ended = command("explain", run, tables / "new.csv", "--rows", "5", "--json", "--draws", "30")
        assert ended.code == 0, ended.error
        assert "the first 5 rows of the file are explained" in ended.error
        assert [entry["row"] for entry in ended.json["rows"]] == [1, 2, 3, 4, 5]
        for entry in ended.json["rows"]:
            assert len(entry["contributions"]) == min(most, 4)
            assert sums(entry) == pytest.approx(entry["prediction"] - entry["average"], abs=1e-9)
            assert all(part["low"] <= part["contribution"] <= part["high"] for part in entry["contributions"])


def test_explanation_is_that_of_the_prediction_and_of_the_truth(price_run, tables):
    """The table is 10 + 3 x + 2 (group = red): contributions of its inputs are those, up to the error of a fit."""
    run, _ = price_run
    found = command("explain", run, tables / "new.csv", "--rows", "12", "--json", "--quiet").json["rows"]
    rows = pd.read_csv(tables / "new.csv", dtype=str, nrows=12)
    said = [json.loads(line) for line in command("predict", run, tables / "new.csv", "--json").out.splitlines()]
    train = make_table(400)
    for place, entry in enumerate(found):
        assert entry["prediction"] == pytest.approx(said[place]["mean"], rel=1e-4)
        parts = {part["input"]: part for part in entry["contributions"]}
        assert parts["x"]["value"] == rows["x"][place]
        truth = 3 * (float(rows["x"][place]) - train["x"].mean())
        assert parts["x"]["contribution"] == pytest.approx(truth, abs=0.8)
        red = 2 * ((rows["group"][place] == "red") - (train["group"] == "red").mean())
        assert parts["group"]["contribution"] == pytest.approx(red, abs=0.8)
        assert abs(parts["z"]["contribution"]) < 0.5


def test_classes_are_explained_by_the_probability_of_the_predicted_one(kind_run, tables):
    run, _ = kind_run
    found = command("explain", run, tables / "new.csv", "--rows", "8", "--json", "--quiet").json["rows"]
    said = [json.loads(line) for line in command("predict", run, tables / "new.csv", "--json").out.splitlines()]
    assert {entry["class"] for entry in found} == {"high", "low"}
    for entry, row in zip(found, said, strict=False):
        assert entry["class"] == row["prediction"]
        assert entry["prediction"] == pytest.approx(row[f"p({entry['class']})"], rel=1e-4)


def test_terminal_and_page(price_run, tables, tmp_path):
    run, _ = price_run
    shown = command("explain", run, tables / "new.csv", "--rows", "2", "--draws", "20").out
    assert "moves it by" in shown
    assert "row 2: price " in shown
    out = tmp_path / "page.html"
    ended = command("explain", run, tables / "new.csv", "--rows", "3", "--draws", "20", "-o", out)
    assert (ended.code, ended.out) == (0, f"wrote {out}\n")
    assert out.read_text(encoding="utf-8").count("<svg") == 3


@needs_browser
def test_page_of_hostile_cells_in_a_browser(price_run, tables, tmp_path):
    run, _ = price_run
    hostile = make_table(2, seed=3).assign(group='</script><script>window.hurt=1</script>"W')
    hostile.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "page.html"
    assert command("explain", run, tmp_path / "rows.csv", "--draws", "20", "-o", out).code == 0
    script = "const found = {hurt: window.hurt === 1, scroll: document.documentElement.scrollWidth}"
    found = look(out, width=420, script=script)
    assert found == {"hurt": False, "scroll": found["scroll"], "console": []}
    assert found["scroll"] <= 420
    assert "&lt;/script&gt;" in out.read_text()


def test_runs_of_earlier_versions_are_explained_by_their_means(price_run, tables, tmp_path):
    run, _ = price_run
    shutil.copytree(run, tmp_path / "old")
    (tmp_path / "old" / background.FILE).unlink()
    sign(tmp_path / "old")
    ended = command("explain", tmp_path / "old", tables / "new.csv", "--rows", "3", "--json")
    assert ended.code == 0, ended.error
    assert "has no background rows" in ended.error
    now = command("explain", run, tables / "new.csv", "--rows", "3", "--json").json["rows"]
    for entry, newer in zip(ended.json["rows"], now, strict=True):
        assert sums(entry) == pytest.approx(entry["prediction"] - entry["average"], abs=1e-9)
        assert entry["average"] == pytest.approx(newer["average"], abs=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows", "0"], "--rows 0 is out of range: use a number from 1 to 200"),
        (["--level", "2"], "--level 2.0 is out of range"),
        (["-o", "page.csv"], "--out page.csv ends in .csv: give the name of an HTML file"),
        (["-o", "nowhere/page.html"], "--out nowhere/page.html lies in a folder that is not there"),
    ],
)
def test_bad_options_are_one_line(price_run, tables, options, message):
    ended = command("explain", price_run[0], tables / "new.csv", *options)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.error
    assert ended.error.count("\n") == 1


def test_bad_files_are_one_line(price_run, tables, tmp_path):
    pd.DataFrame({"x": [1.0]}).to_csv(tmp_path / "lacking.csv", index=False)
    (tmp_path / "empty.csv").write_text("x,z,group,day\n")
    for name, message in (
        ("lacking", "lacks the columns 'z', 'group', 'day'"),
        ("empty", "has no rows"),
        ("no", "no.csv"),
    ):
        ended = command("explain", price_run[0], tmp_path / f"{name}.csv")
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.error
        assert ended.error.count("\n") == 1


def test_background_keeps_each_column_and_no_row():
    rng = np.random.default_rng(0)
    level = rng.choice(3, 400, p=[0.5, 0.3, 0.2])
    x = np.c_[rng.normal(size=400), np.eye(3)[level], rng.exponential(size=400)]
    kept = learn_background(x, [[0], [1, 2, 3], [4]], seed=0)
    assert kept.shape == (ROWS, 5)
    np.testing.assert_array_equal(kept[:, 1:4].sum(1), 1)  # inputs of a category stay together
    np.testing.assert_allclose(kept[:, 1:4].mean(0), x[:, 1:4].mean(0), atol=1 / ROWS)
    for column in (0, 4):
        np.testing.assert_allclose(kept[:, column].mean(), x[:, column].mean(), atol=0.1)
        assert x[:, column].min() < kept[:, column].min() < kept[:, column].max() < x[:, column].max()
    rows = {tuple(row) for row in x[:, [0, 4]]}
    assert not rows & {tuple(row) for row in kept[:, [0, 4]]}
    assert abs(np.corrcoef(kept[:, 0], np.sort(kept[:, 0]))[0, 1]) < 0.6  # in an order of its own
    assert len(learn_background(x[:5], [[0], [1, 2, 3], [4]], seed=0)) == ROWS


def test_the_scale_of_contributions_is_said(price_run, kind_run, tables, tmp_path):
    for (run, _), scale, shown in (
        (price_run, "units of price", "(units of price)"),
        (kind_run, "probability", "(perce"),
    ):
        assert (
            command("explain", run, tables / "new.csv", "--rows", "1", "--json", "--quiet")
            .json["scale"]
            .startswith(scale)
        )
        ended = command("explain", run, tables / "new.csv", "--rows", "1")
        assert shown.split()[0] in ended.out
        assert "multiplies" not in ended.error


@pytest.mark.parametrize("likelihood", ["log-normal", "poisson"])
def test_models_that_multiply_say_so_and_explain_bounded_means(likelihood, tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    y = np.exp(1 + a + 0.3 * b + 0.1 * rng.normal(size=200))
    y = np.round(y) if likelihood == "poisson" else y
    pd.DataFrame({"a": a, "b": b, "y": y}).to_csv(tmp_path / "table.csv", index=False)
    pd.DataFrame({"a": [0.0, 12.0], "b": [0.0, 0.0]}).to_csv(tmp_path / "new.csv", index=False)
    options = ["--target", "y", "--likelihood", likelihood, "--hidden", "0", "--epochs", "150", "--no-baselines"]
    assert command("fit", tmp_path / "table.csv", *options, "--quiet", "--out", tmp_path / "run").code == 0
    ended = command("explain", tmp_path / "run", tmp_path / "new.csv", "--json")
    assert "contributions are in units of y, and the model multiplies" in " ".join(ended.error.split())
    far = ended.json["rows"][1]
    assert sums(far) == pytest.approx(far["prediction"] - far["average"])
    if likelihood == "log-normal":  # exp(13) without a bound
        assert y.max() < far["prediction"] < 2 * y.max()
