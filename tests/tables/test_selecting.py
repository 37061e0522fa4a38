"""`r2d2net fit --select`: columns selected, on the terminal, in JSON and on the page, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest

from r2d2net.tables.settings import Settings
from table_runs import command

SMALL = ["--hidden", "0", "--algorithm", "cavi", "--epochs", "40", "--no-baselines"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A slope, a category with an effect, and three columns without one."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((160, 4)).round(4), columns=["age", "u", "v", "w"])
    frame["kind"] = generator.choice(["a", "b", "c"], 160)
    effect = frame["kind"].map({"a": 0.0, "b": 1.5, "c": -1.5})
    frame["y"] = (frame["age"] + effect + 0.5 * generator.standard_normal(160)).round(4)
    path = tmp_path_factory.mktemp("selecting") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_columns_are_selected_and_shown(table):
    run = table.parent / "run"
    ended = command("fit", table, "--target", "y", *SMALL, "--fdr", "0.05", "--out", run)
    assert ended.code == 0, ended.error
    sentence = "Selected 2 of 5 inputs: of such selections at most about 5% are false on average (age, kind)."
    assert sentence in " ".join(ended.out.split())
    selection = json.loads((run / "metrics.json").read_text())["selection"]
    assert {entry["name"] for entry in selection["inputs"] if entry["selected"]} == {"age", "kind"}
    assert selection["fdr"] == 0.05
    page = (run / "report.html").read_text(encoding="utf-8")
    assert all(entry["p_value"] is None and 0 <= entry["lfdr"] <= 1 for entry in selection["inputs"])
    assert "Selected inputs" in page
    assert "chance of no effect" in page
    assert "q-value" in page


def test_nothing_is_selected_unless_asked_for(table):
    run = table.parent / "plain"
    assert command("fit", table, "--target", "y", *SMALL, "--out", run, "--quiet").code == 0
    assert "selection" not in json.loads((run / "metrics.json").read_text())


def test_a_bound_asks_for_a_selection():
    assert Settings.of({"target": "y", "fdr": 0.2}).select
    assert not Settings.of({"target": "y", "fdr": 0.2, "select": False}).select
    restored = Settings.back(Settings.of({"target": "y"}).plain())
    assert not restored.select
    assert restored.fdr == 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fdr", "1.5"], "--fdr 1.5 is out of range: use a number from 0.001 to 0.999"),
        (
            ["--select", "--target", "y,age"],
            "--select is for one target: give one of them by --target",
        ),
    ],
)
def test_refusals(table, options, message):
    ended = command("fit", table, "--target", "y", *SMALL, *options, "--out", table.parent / "refused")
    assert ended.code == 2
    assert message in " ".join(ended.error.split())
