"""The panels of a run's predictive checks: density, PIT, residuals by input (see `r2d2net.predictive_checks`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from r2d2net.report.calibration_words import chance
from r2d2net.report.run_charts import Panel, number_text
from r2d2net.report.svg_charts import Axis, Chart, axis_over

NINETY = 1.645


def check_panels(check: dict[str, Any], before: str = "") -> list[Panel]:
    """Draw a check of the test rows.

    Args:
        check: What `PredictiveCheck.plain` wrote.
        before: What titles begin with.

    Returns:
        Density, PIT (not of classes), and the residuals over the inputs with the smallest p-values.
    """
    panels = [_density(check)] if check["kind"] != "classes" else []
    panels += [_pit(check)] if check["pit"] is not None else []
    panels += [_residuals(entry, check) for entry in check["inputs"]]
    return [panel._replace(title=before + panel.title) for panel in panels]


def check_words(check: dict[str, Any]) -> str:
    """Say what a check found.

    Args:
        check: What `PredictiveCheck.plain` wrote.

    Returns:
        The verdict as a sentence, with how often right predictions would be flagged.
    """
    said = str(check["verdict"])
    return f"{said[0].upper()}{said[1:]}. Of right predictions about 5% are flagged.\n"


def _density(check: dict[str, Any]) -> Panel:
    own = {name: np.array(part) for name, part in check["density"].items()}
    edges, width = own["edges"], np.diff(own["edges"])
    observed, expected, low, high = (own[name] / width for name in ("observed", "expected", "low", "high"))
    top = float(max(observed.max(), high.max(), 1e-300)) * 1.05
    chart = Chart(
        axis_over(check["target"], edges, margin=0), Axis("density", 0, top), "Observed and predicted targets"
    )
    for left, right, value, share in zip(edges[:-1], edges[1:], observed, own["observed"], strict=True):
        tip = f"{number_text(left)} to {number_text(right)}: {share:.1%} of the rows"
        chart.box(float(left), float(right), 0, float(value), "bar c0", tip)
    middle = (edges[:-1] + edges[1:]) / 2
    chart.band(middle.tolist(), low.tolist(), high.tolist(), "c1")
    chart.line(middle.tolist(), expected.tolist(), "c1")
    outside = int(((own["observed"] < own["low"]) | (own["observed"] > own["high"])).sum())
    words = (
        f"Bars: observed; line: predicted, with what chance allows (90%). {outside} of {len(width)} bars lie outside."
    )
    return Panel("Observed and predicted targets", chart.html(), words)


def _pit(check: dict[str, Any]) -> Panel:
    counts, rows = np.array(check["pit"]), check["rows"]
    low, high = (float(end) * rows for end in chance(1 / len(counts), rows))
    chart = Chart(
        Axis("probability of less than the observed value", 0, 1, percent=True),
        Axis("rows", 0, max(float(counts.max()), high) * 1.05),
        "Probability integral transform",
    )
    chart.box(0, 1, low, high, "band grey")
    for k, count in enumerate(counts):
        kind = "c0" if low <= count <= high else "bad"
        tip = f"{k / len(counts):.0%} to {(k + 1) / len(counts):.0%}: {count} rows\nby chance {low:.0f} to {high:.0f}"
        chart.box(k / len(counts), (k + 1) / len(counts), 0, float(count), f"bar {kind}", tip)
    words = "Flat if predictions are right; a hill where intervals are too wide, a bowl where they are too narrow."
    return Panel("Where observed values fall (PIT)", chart.html(), words)


def _residuals(entry: dict[str, Any], check: dict[str, Any]) -> Panel:
    place, mean, rows = (np.array(entry[name]) for name in ("place", "mean", "rows"))
    of_classes = check["kind"] == "classes"
    unit = 0.5 if of_classes else 1.0  # largest standard deviation of an event
    error = NINETY * unit / np.sqrt(rows)
    far = float(np.abs(np.concatenate([mean + error, mean - error])).max()) * 1.1
    x = axis_over(entry["name"], place)
    label = "observed minus predicted share" if of_classes else "mean residual, in standard deviations"
    chart = Chart(x, Axis(label, -far, far), f"Residuals by {entry['name']}")
    chart.segment((x.low, 0), (x.high, 0), "ideal")
    for at, value, half, count in zip(place, mean, error, rows, strict=True):
        chart.segment((float(at), float(value - half)), (float(at), float(value + half)), "range")
        tip = f"{entry['name']} about {number_text(float(at))}, {count} rows: {value:+.2f} ± {half:.2f}"
        chart.dot(float(at), float(value), "c0" if abs(value) <= half else "bad", tip)
    p = entry["p_mean"] if of_classes else min(entry["p_mean"], entry["p_size"])
    words = f"Means of groups of rows, with 90% errors; p-value {p:.2g} of no dependence, before it is corrected."
    return Panel(f"Residuals by {entry['name']}", Markup(chart.html()), words)
