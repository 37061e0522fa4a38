"""effects.json: the curves of planted effects of numbers with gaps, dates with seasons, and levels, few or many."""

import json

import numpy as np
import pandas as pd
import pytest

from table_runs import command


@pytest.fixture(scope="module")
def effects(tmp_path_factory):
    folder, rng, n = tmp_path_factory.mktemp("effects"), np.random.default_rng(0), 900
    day, city = rng.integers(0, 900, n), rng.integers(0, 120, n)
    x, colour = rng.normal(size=n), rng.choice(["red", "green"], n)
    season = np.cos(2 * np.pi * day / 365.25)
    height = np.linspace(-3, 3, 120)[city]
    y = 10 + 2 * x + height + 1.5 * season + (colour == "red") + 0.3 * rng.normal(size=n)
    table = pd.DataFrame({"day": (pd.Timestamp("2020-01-01") + pd.to_timedelta(day, unit="D")).strftime("%Y-%m-%d")})
    table = table.assign(
        city=[f"c{k:03}" for k in city], x=np.where(rng.random(n) < 0.1, np.nan, x), colour=colour, y=y
    )
    table.to_csv(folder / "table.csv", index=False)
    settings = ("--hidden", "0", "--algorithm", "lineargibbs", "--prior", "r2d2", "--draws", "50", "--quiet")
    ended = command("fit", folder / "table.csv", "--target", "y", "--out", folder / "run", *settings)
    assert ended.code == 0, ended.error
    return {entry["name"]: entry for entry in json.loads((folder / "run" / "effects.json").read_text())["effects"]}


@pytest.mark.parametrize("acts", [True, False])
def test_the_pair_that_acts_together_is_drawn(tmp_path, acts):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    table["group"] = rng.choice(["red", "green"], 400)
    both = 2 * table["a"] * (table["group"] == "red") if acts else table["a"]
    table["y"] = both + table["b"] + 0.1 * rng.normal(size=400)
    table.to_csv(tmp_path / "table.csv", index=False)
    settings = ("--hidden", "12", "--epochs", "200", "--no-baselines", "--quiet")
    ended = command("fit", tmp_path / "table.csv", "--target", "y", "--out", tmp_path / "run", *settings)
    assert ended.code == 0, ended.error
    found = json.loads((tmp_path / "run" / "effects.json").read_text())["interactions"]
    assert len(found["pairs"]) == 6
    page = (tmp_path / "run" / "report.html").read_text()
    if not acts:
        assert found["maps"] == []
        assert "the effects of these inputs add up" in page
        return
    (drawn,) = found["maps"]
    assert set(drawn["inputs"]) == {"a", "group"}
    assert drawn["share_low"] > found["least"]
    assert "act together" in page
    place = drawn["inputs"].index("group")
    slopes = np.ptp(np.array(drawn["mean"]), axis=place)  # over the values of a, for each level
    by_level = dict(zip(drawn["axes"][place]["levels"], slopes, strict=True))
    assert by_level["red"] > 3 * by_level["green"]


def mean(entry):
    (curve,) = entry["curves"]
    ends = zip(*(curve[part] for part in ("low", "mean", "high")), strict=True)
    assert all(low <= middle <= high for low, middle, high in ends)
    return np.array(curve["mean"])


# Coefficients of 720 rows with residuals of deviation .8 (gaps in x count) have errors of about .03: bounds are
# five of these, or more where the errors of several add up.


def test_a_number_with_gaps_has_its_slope(effects):
    x, curve = np.array(effects["x"]["values"]), mean(effects["x"])
    np.testing.assert_allclose(np.diff(curve) / np.diff(x), 2, atol=0.15)


def test_a_date_has_its_season_not_its_trend_alone(effects):
    days = np.array(effects["day"]["values"]) - 18262  # 2020-01-01
    curve = mean(effects["day"])
    truth = 1.5 * np.cos(2 * np.pi * days / 365.25)
    np.testing.assert_allclose(curve - curve.mean(), truth - truth.mean(), atol=0.4)


def test_a_category_has_a_bar_a_level(effects):
    bars = dict(zip(effects["colour"]["levels"], mean(effects["colour"]), strict=True))
    assert bars["red"] - bars["green"] == pytest.approx(1, abs=0.3)


def test_many_levels_are_shown_at_steps_of_their_average_target(effects):
    levels, bars = effects["city"]["levels"], mean(effects["city"])
    assert len(levels) == 12
    assert (np.diff(bars) > 0).all()
    truth = np.linspace(-3, 3, 120)[[int(level[1:]) for level in levels]]
    # averages of 6 rows have an error of variance .9 beside 3 of the truth: a correlation of .88, and .07 its error
    assert np.corrcoef(truth, bars)[0, 1] > 0.6
