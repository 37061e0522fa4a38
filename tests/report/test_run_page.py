"""The page of a run: complete, bounded, without any string of the user as markup, and sound in a browser."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from browser import look, needs_browser
from r2d2net.report.chart_files import COLOURS, RULES
from r2d2net.report.pair_chart import pairs_table
from r2d2net.report.run_page import verdict_of, write_run_page
from r2d2net.report.run_sections import baselines_table, class_scores, true_probability

HOSTILE = '</script><script>window.hurt=1</script><img src=x onerror="window.hurt=1">\'"&amp;{{ 7*7 }} a_very_long_name'
LONG = "W" * 300


class Tags(HTMLParser):
    """Tags of a page with their attributes, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def made_pairs(names, classes):
    """Pairs of effects.json with maps of levels beside numbers, of a date, and of levels beside levels."""
    measures = {"h": 0.5, "h_low": 0.4, "h_high": 0.6, "share": 0.3, "share_low": 0.2, "share_high": 0.4}
    levels = {"kind": "category", "levels": [HOSTILE, LONG, "c"]}
    numbers = {"kind": "number", "values": [1.0, 2.0, 10.0, 1e6]}
    days = {"kind": "date", "values": [19000.0, 19100.0]}
    maps = []
    for axes in ([levels, numbers], [days, numbers], [levels, levels]):
        across, up = (len(axis.get("levels", axis.get("values"))) for axis in axes)
        grid = [[0.1 + 0.05 * i * j for i in range(across)] for j in range(up)]
        shown = {"class": HOSTILE} if classes else {}
        entry = {"inputs": names[:2], "axes": axes, "low": grid, "mean": grid, "high": grid, **shown, **measures}
        maps.append(entry)
    return {"least": 0.01, "pairs": [{"inputs": names[:2], **measures}] * 9, "maps": maps}


def made_run(folder: Path, *, classes: tuple[str, ...] = (), rows: int = 60, inputs: int = 14, newer: bool = True):
    """Write a page of invented results, with hostile names, and return it."""
    rng = np.random.default_rng(0)
    names = [HOSTILE, LONG, *(f"input {i}" for i in range(inputs - 2))]
    observed = rng.normal(100, 20, rows)
    mean = observed + rng.normal(0, 10, rows)
    table = pd.DataFrame({"row": np.arange(rows) + 1, "observed": observed})
    test = {"rows": rows, "nll": 1.0, "nll_se": 0.1, "unlike": 0.0, "unlike_expected": 0.01, "constant": {"nll": 2.0}}
    if classes:
        probs = rng.dirichlet(np.ones(len(classes)), rows)
        table["observed"] = rng.choice(classes, rows)
        table["prediction"] = np.array(classes, dtype=object)[probs.argmax(1)]
        columns = pd.DataFrame({f"p({label})": probs[:, i] for i, label in enumerate(classes)})
        table = pd.concat([table, columns, pd.DataFrame({"entropy": np.full(rows, 0.5)})], axis=1)
        test |= {"accuracy": 0.8, "brier": 0.3, "ece": 0.05, "auroc": 0.9}
        test["calibration"] = {"said": [0.3, 0.8], "true": [0.4, 0.7], "rows": [10, rows - 10]}
    else:
        table = table.assign(mean=mean, sd=10.0, low=mean - 16, high=mean + 16)
        levels = [0.05 * k for k in range(1, 20)]
        test |= {"rmse": 10.0, "mae": 8.0, "r2": 0.7, "level": 0.9, "coverage": 0.88, "width": 32.0}
        test["calibration"] = {"level": levels, "covered": [min(1.0, level * 1.02) for level in levels]}
    ends = pd.DataFrame({"typicality": np.full(rows, 0.5), "unlike": False, "filled": 0})
    pd.concat([table, ends], axis=1).to_csv(folder / "test_predictions.csv", index=False)
    curve = {"low": [0.1, 0.2, 0.3], "mean": [0.2, 0.3, 0.4], "high": [0.3, 0.4, 0.5]}
    curves = [{"class": label, **curve} for label in classes[:3]] or [curve]
    effects = [
        {"name": names[0], "kind": "number", "values": [1.0, 2.0, 3.0], "curves": curves},
        {"name": names[1], "kind": "category", "levels": [HOSTILE, LONG, "c"], "curves": curves},
        {"name": "day", "kind": "date", "values": [19000.0, 19100.0, 19300.0], "curves": curves},
    ]
    relevance = [
        {
            "name": name,
            "importance": 0.5 / (i + 1),
            "importance_std": 0.01,
            "kept": i < 3,
            "mean": 0.3 / (i + 1),
            "low": 0.1 / (i + 1),
            "high": 0.4 / (i + 1),
        }
        for i, name in enumerate(names)
    ]
    scores = [{"name": HOSTILE, "algorithm": "MCLMC", "weight": 0.7, "score": -5.0}]
    health = {"verdict": "fits", "error_ratio": 0.4}
    results = {
        "seconds": 3.0,
        "test": test,
        "posterior": {"algorithm": "Stacked", "candidates": scores, "health": health},
    }
    if newer:
        content = {"effects": effects, "interactions": made_pairs(names, classes)}
        (folder / "effects.json").write_text(json.dumps(content))
        results["verdict"] = {"sentence": f"Good: {HOSTILE}", "warning": f"Beware of {HOSTILE}"}
        name = "accuracy" if classes else "rmse"
        test["baselines"] = {"ridge regression": {name: 0.77, "nll": 1.23}, HOSTILE: {name: 0.66}}
        relevance = [{**entry, "share": entry["mean"], "group": [names[1], HOSTILE]} for entry in relevance]
    run = {
        "task": {"target": HOSTILE, "kind": "multiclass" if classes else "regression", "classes": list(classes)},
        "data": {"file": HOSTILE, "sha256": "0" * 64},
        "rows": {"training": 100, "validation": 0, "test": rows},
        "settings": {"stacked": True, "hidden": None, "ignore": [HOSTILE]},
        "columns": {
            "used": [{"name": HOSTILE, "kind": "category", "levels": [HOSTILE], "other": False, "missing": True}],
            "left_out": {HOSTILE: "constant"},
        },
        "notes": [HOSTILE],
        "seed": 0,
        "versions": {"r2d2net": "0"},
        "commit": None,
        "written": "today",
    }
    history = [{"epoch": i + 1, "nll": 2.0 / (i + 1)} for i in range(40)]
    return write_run_page(folder, run, results, relevance, history)


KINDS = {"numbers": (), "two": ("no", HOSTILE), "many": (HOSTILE, LONG, *(f"c{i}" for i in range(20)))}


@pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("newer", [True, False])
def test_strings_of_the_user_are_never_markup(tmp_path, classes, newer):
    text = made_run(tmp_path, classes=classes, newer=newer).read_text(encoding="utf-8")
    tags = Tags(text).tags
    assert sum(tag == "script" for tag, _ in tags) == 1 == text.count("</script>")
    assert not [tag for tag, _ in tags if tag in ("img", "iframe", "link", "object", "base", "form")]
    assert not [attrs for _, attrs in tags if any(name.startswith("on") or name in ("src", "href") for name in attrs)]
    assert "{{ 7*7 }}" in text
    assert any(HOSTILE in (attrs.get("data-tip") or "") for _, attrs in tags)  # the parser gives it back whole


@pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
def test_files_of_the_charts_need_no_page(tmp_path, classes):
    """They are sound XML whatever the columns are called, with a title, a key and colours of their own."""
    made_run(tmp_path, classes=classes)
    own = ("confusion", "probabilities", "reliability") if classes else ("predictions", "errors", "calibration")
    files = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "figures").iterdir()}
    assert files.keys() == {*own, "inputs", "learning-curve"}
    style = RULES + " ".join(f".{colour} .dot.{colour} .line.{colour}" for colour in COLOURS)
    for name, text in files.items():
        root = ElementTree.fromstring(text)
        tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
        assert tags <= {"svg", "style", "rect", "text", "line", "circle", "polyline", "polygon"}
        assert "var(" not in text
        assert "data-" not in text
        used = {kind for element in root.iter() for kind in element.get("class", "").split()}
        without = {"bar", "dot", "key", "good"}  # whose colour is that of another class
        assert all(re.search(rf"\.{kind}\b", style) for kind in used - without), (name, used)
    texts = [element.text for element in ElementTree.fromstring(files["learning-curve"]).iter() if element.text]
    assert {"Learning curve", "training rows"} <= set(texts)


def test_a_page_is_written_without_matplotlib():
    """Its import and drawings took a fifth of the time of a fit of a small table."""
    code = "import sys, r2d2net.report.run_page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_page_shows_what_the_run_says(tmp_path):
    text = made_run(tmp_path).read_text(encoding="utf-8")
    assert "<title>Regression of " in text
    assert "60 test. Stacking, seed 0, fitted in 3 s." in text
    verdict, warning = text.index('<p class="verdict">Good: '), text.index('<p class="warning">Beware of ')
    assert verdict < warning < text.index('class="tiles"') < text.index("<svg") < text.index("<details")
    for part in (
        "Predicted and observed",
        "Errors",
        "Are intervals as wide",
        "Inputs",
        "Effect of",
        "ridge regression",
    ):
        assert part in text, part
    folds = re.findall(r"<summary>(.*?)</summary>", text)
    assert folds == [
        "Scores",
        "Worst rows",
        "Effects of the inputs",
        "All inputs",
        "Models, training and settings",
        "Data and notes",
    ]
    assert "0.77" in text
    assert "share of what the inputs tell" in text
    assert "can stand for" in text


def test_older_runs_have_a_page(tmp_path):
    text = made_run(tmp_path, newer=False).read_text(encoding="utf-8")
    assert "On 60 test rows the error of" in text
    assert "Effects of the inputs" not in text
    assert 'class="warning"' not in text


def test_size_is_bounded(tmp_path):
    """A hundred times the rows, and thirty times the inputs."""
    big = made_run(tmp_path, rows=5_000, inputs=500)
    assert big.stat().st_size < 600_000
    assert "400 of them drawn" in big.read_text()
    many = tuple(f"class {i}" for i in range(300))
    assert made_run(tmp_path, classes=many, rows=2000).stat().st_size < 600_000


def test_scores_by_class_are_right():
    rows = pd.DataFrame({"observed": ["a", "a", "b", "NA"], "prediction": ["a", "b", "b", "b"]})
    rows = rows.assign(**{"p(a)": [0.6, 0.4, 0.1, 0.2], "p(b)": [0.3, 0.5, 0.8, 0.5], "p(NA)": [0.1, 0.1, 0.1, 0.3]})
    cells = re.findall(r"<td[^>]*>(.*?)</td>", class_scores(rows, ["a", "b", "NA"]))
    assert cells[:6] == ["a", "2", "1", "100.0%", "50.0%", "66.7%"]
    assert cells[6:12] == ["b", "1", "3", "33.3%", "100.0%", "50.0%"]
    assert cells[12:] == ["NA", "1", "0", "–", "0.0%", "0.0%"]
    np.testing.assert_allclose(true_probability(rows), [0.6, 0.4, 0.8, 0.3])


def test_baselines_stand_beside_the_model():
    metrics = {"rmse": 1.0, "nll": 2.0, "baselines": {"boosted trees": {"rmse": 3.0}}, "constant": {"rmse": 4.0}}
    labels = {"rmse": "error", "nll": "nll", "mae": "mae"}
    found = baselines_table(metrics, labels, lambda name, value: f"{value:g}")
    assert re.findall(r"<th [^>]*>(.*?)</th>", found) == [
        "on test rows",
        "this model",
        "boosted trees",
        "best constant",
    ]
    assert re.findall(r"<td[^>]*>(.*?)</td>", found) == ["error", "1", "3", "4", "nll", "2", "", ""]


def test_verdict_without_test_rows():
    assert verdict_of({"test": None}, "y").startswith("No rows were held out")
    assert verdict_of({"test": None, "verdict": {"sentence": "Fine.", "warning": None}}, "y") == "Fine."


def test_maps_of_pairs_have_a_cell_for_each_two_values(tmp_path):
    page = made_run(tmp_path)
    tags = [attrs for tag, attrs in Tags(page.read_text(encoding="utf-8")).tags if tag == "rect"]
    cells = [attrs for attrs in tags if attrs.get("class", "").startswith("heat k")]
    assert len(cells) == 12 + 8 + 9
    assert {"heat k0", "heat k9"} <= {attrs["class"] for attrs in cells}
    assert "\n" in cells[0]["data-tip"]
    content = json.loads((tmp_path / "effects.json").read_text())
    assert "beyond the sum of their own effects" in page.read_text()
    none = pairs_table({**content["interactions"], "maps": []})
    assert "the effects of these inputs add up" in none[0]
    assert len(re.findall("<tr", none[1])) == 6
    assert pairs_table({}) == []


@needs_browser
@pytest.mark.parametrize(
    ("kind", "width", "dark"), [("numbers", 420, True), ("many", 420, False), ("two", 1200, False)]
)
def test_in_a_browser(tmp_path, kind, width, dark):
    found = look(made_run(tmp_path, classes=KINDS[kind]), width=width, dark=dark)
    assert found["console"] == []
    assert found["width"] == width
    assert found["scroll"] <= width
    assert found["outside"] == []
    text, visibility, inside = found["tip"]
    assert text
    assert (visibility, inside, found["gone"]) == ("visible", True, "hidden")
    assert found["lit"] >= (2 if kind == "numbers" else 0)  # a row's dots light up in both charts, and in the table
    before, down, up = found["sorted"]
    assert sorted(before) == sorted(down) == sorted(up)
    assert down == up[::-1]
    assert found["background"] == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert not look(tmp_path / "report.html", script="const found = {hurt: window.hurt === 1}")["hurt"]
