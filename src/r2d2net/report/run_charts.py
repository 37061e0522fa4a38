"""The charts of a run of `r2d2net fit`, as panels of its page: a title, a chart and what it says in words.

What is drawn is bounded whatever the table is: `MOST_POINTS` test rows, `MOST_BARS` inputs, `MOST_CLASSES` classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from r2d2net.report.calibration_words import chance, words_of_intervals, words_of_probabilities
from r2d2net.report.svg_charts import Axis, Chart, axis_over, clipped, short_number

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 400
MOST_BARS = 12
MOST_CLASSES = 10
MOST_LABELS = 5  # classes whose names stand below the confusion matrix
MOST_EPOCHS = 300
COLOURS = 6


class Panel(NamedTuple):
    """A part of a page.

    Attributes:
        title: Its heading, as plain text.
        content: A chart or a table, as markup.
        words: What it says, as plain text.
        key: Colour, as a class of the style, and name of each series, where there are several.
    """

    title: str
    content: Markup
    words: str = ""
    key: Sequence[tuple[str, str]] = ()


def predicted_and_observed(rows: pd.DataFrame, metrics: dict[str, Any], target: str) -> Panel:
    """Draw observed values over predicted ones, with the interval of each row.

    Args:
        rows: Test rows with row, mean, low, high and observed.
        metrics: Their metrics; uses level.
        target: The name of the target.

    Returns:
        The panel.
    """
    drawn = _some(rows)
    ends = np.concatenate([drawn[name].to_numpy(float) for name in ("mean", "observed")])
    both = axis_over("", [*ends, *np.quantile(drawn["low"], [0.02]), *np.quantile(drawn["high"], [0.98])])
    chart = Chart(both._replace(label="predicted"), both._replace(label=f"observed {target}"), "Predicted and observed")
    level = f"{metrics['level']:.0%}"
    lowest, highest = both.low, both.high
    chart.segment((lowest, lowest), (highest, highest), "ideal")
    inside = _inside(drawn)
    for row in drawn.itertuples():
        low, high = (min(max(end, lowest), highest) for end in (row.low, row.high))
        chart.segment((row.mean, low), (row.mean, high), "range")
    for row, held in zip(drawn.itertuples(), inside, strict=True):
        tip = f"row {row.row}: observed {number_text(row.observed)}, predicted {number_text(row.mean)}"
        tip += f"\n{level} interval {number_text(row.low)} to {number_text(row.high)}" + (
            "" if held else "\noutside its interval"
        )
        chart.dot(row.mean, row.observed, "c0" if held else "bad", tip, f"row {row.row}")
    outside = int((~_inside(rows)).sum())
    some = f", {len(drawn)} of them drawn" if len(drawn) < len(rows) else ""
    words = f"{outside:,} of {len(rows):,} test rows{some} lie outside their {level} interval (orange)."
    return Panel("Predicted and observed", chart.html(), words)


def residuals(rows: pd.DataFrame, target: str) -> Panel:
    """Draw errors in units of the predicted standard deviation over predicted values.

    Args:
        rows: Test rows with row, mean, sd and observed.
        target: The name of the target.

    Returns:
        The panel.
    """
    drawn = _some(rows)
    z = _scaled_errors(drawn)
    far = min(8.0, max(3.2, float(np.abs(z).max(initial=0.0)) * 1.1))
    x = axis_over(f"predicted {target}", drawn["mean"])
    chart = Chart(x, Axis("error, in predicted standard deviations", -far, far), "Errors")
    chart.box(x.low, x.high, -1.645, 1.645, "band c0")
    chart.segment((x.low, 0), (x.high, 0), "ideal")
    for row, error in zip(drawn.itertuples(), z, strict=True):
        tip = f"row {row.row}: {number_text(row.observed - row.mean)} off, {error:+.1f} standard deviations"
        place = min(max(error, -far), far)
        chart.dot(row.mean, place, "bad" if abs(error) > 3 else "c0", tip, f"row {row.row}")
    all_z = _scaled_errors(rows)
    beyond = int((np.abs(all_z) > 3).sum())
    slope = _spread_by_size(all_z, rows["mean"].to_numpy(float))
    words = f"{beyond:,} of {len(rows):,} rows are more than 3 standard deviations off (normal errors: 0.3%). {slope}"
    return Panel("Errors", chart.html(), words)


def calibration(metrics: dict[str, Any]) -> Panel:
    """Draw the share of test rows inside intervals of every level.

    Args:
        metrics: Metrics of the test rows; uses calibration, rows, level and coverage.

    Returns:
        The panel.
    """
    curve, rows = metrics["calibration"], metrics["rows"]
    chart = Chart(
        Axis("level of the interval", 0, 1, percent=True),
        Axis("rows inside", 0, 1, percent=True),
        "Calibration of intervals",
    )
    level = np.array(curve["level"])
    low, high = chance(level, rows)
    chart.band([0, *level, 1], [0, *low, 1], [0, *high, 1], "grey")
    chart.segment((0, 0), (1, 1), "ideal")
    chart.line(curve["level"], curve["covered"], "c0")
    for nominal, covered, least, most in zip(level, curve["covered"], low, high, strict=True):
        kind = "c0" if least <= covered <= most else "bad"
        tip = f"{nominal:.0%} intervals hold {covered:.1%} of the rows\nby chance {least:.0%} to {most:.0%}"
        chart.dot(nominal, covered, kind, tip)
    return Panel("Are intervals as wide as they should be?", chart.html(), words_of_intervals(metrics))


def reliability(metrics: dict[str, Any], event: str) -> Panel:
    """Draw how often events came true over their predicted probability.

    Args:
        metrics: Metrics of the test rows; uses calibration.
        event: The class, or event, whose probability is predicted.

    Returns:
        The panel.
    """
    bins = metrics["calibration"]
    chart = Chart(
        Axis(f"predicted probability of {event}", 0, 1, percent=True),
        Axis("came true", 0, 1, percent=True),
        "Reliability of probabilities",
    )
    chart.segment((0, 0), (1, 1), "ideal")
    low, high = chance(np.array(bins["said"]), np.array(bins["rows"]))
    for said, least, most in zip(bins["said"], low, high, strict=True):
        chart.segment((said, least), (said, most), "chance")
    chart.line(bins["said"], bins["true"], "c0")
    for said, true, count, least, most in zip(bins["said"], bins["true"], bins["rows"], low, high, strict=True):
        tip = f"{said:.0%} said, {true:.0%} came true, {count:,} rows\nby chance {least:.0%} to {most:.0%}"
        chart.dot(said, true, "c0" if least <= true <= most else "bad", tip)
    return Panel("Are probabilities right?", chart.html(), words_of_probabilities(bins))


def confusion(observed: np.ndarray, predicted: np.ndarray, classes: Sequence[str]) -> Panel:
    """Draw how many rows of each class were predicted as which.

    Args:
        observed: Classes of the test rows.
        predicted: Their most probable classes.
        classes: All classes; of many the most frequent ones are drawn, and the others as one.

    Returns:
        The panel.
    """
    shown = _frequent(observed, classes)
    place = {label: i for i, label in enumerate(shown)}
    other = len(shown) if len(shown) < len(classes) else None
    names = [*shown, *([] if other is None else ["other classes"])]
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    for true, said in zip(observed, predicted, strict=True):
        counts[place.get(true, other), place.get(said, other)] += 1
    size = len(names)
    chart = Chart(
        Axis("predicted class" if size <= MOST_LABELS else "predicted class, in the same order", -0.5, size - 0.5),
        Axis("observed class", -0.5, size - 0.5),
        "Confusion matrix",
        left=96,
        levels=names[::-1],
        height=250,
    )
    for j, said in enumerate(names if size <= MOST_LABELS else ()):
        chart.note(j, said, 250 / size - 4)
    for i, true in enumerate(names):
        total = max(1, int(counts[i].sum()))
        for j, said in enumerate(names):
            share, count = counts[i, j] / total, int(counts[i, j])
            kind = f"heat {'good' if i == j else 'wrong'} h{math.ceil(share * 4)}"
            tip = f"{true} predicted as {said}: {count:,} rows, {share:.0%} of {true}"
            row = size - 1 - i
            chart.box(j - 0.48, j + 0.48, row - 0.47, row + 0.47, kind, tip)
            if size <= 8 and count:
                chart.text(j, row, short_number(count), "count" + (" on-dark" if share > 0.5 else ""))
    right = float((observed == predicted).mean())
    words = f"{right:.1%} of {len(observed):,} test rows are predicted right."
    return Panel("Predicted and observed classes", chart.html(without_x_ticks=True), words)


def true_probabilities(probability: np.ndarray) -> Panel:
    """Draw how many test rows have which predicted probability of the class that was observed.

    Args:
        probability: The predicted probability of each row's observed class.

    Returns:
        The panel.
    """
    counts, edges = np.histogram(probability, bins=20, range=(0, 1))
    chart = Chart(
        Axis("predicted probability of the observed class", 0, 1, percent=True),
        Axis("test rows", 0, max(1, int(counts.max())) * 1.05),
        "Probability of the observed class",
    )
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            tip = f"{count:,} rows of {left:.0%} to {right:.0%}"
            chart.box(left + 0.004, right - 0.004, 0, count, "bar " + ("c0" if left >= 0.5 else "bad"), tip)
    surprised = float((probability < 0.1).mean())
    words = f"Half of the rows have {np.median(probability):.0%} or more; {surprised:.1%} have less than 10%."
    return Panel("How sure of what was observed?", chart.html(), words)


def importance_bars(inputs: list[dict[str, Any]], nothing_kept: str | None = None) -> Panel:
    """Draw the importance of the first inputs, by their share where the run has one.

    Args:
        inputs: All inputs by rank; uses name, importance, importance_std, kept, and share and group where present.
        nothing_kept: Why no input is kept, where there is a reason.

    Returns:
        The panel.
    """
    drawn = inputs[:MOST_BARS]
    has_share = bool(inputs) and all(entry.get("share") is not None for entry in inputs)
    name = "share" if has_share else "importance"
    label = "share of what the inputs tell" if has_share else "importance, share of the output's variance"
    most = max((entry[name] + (0 if has_share else entry["importance_std"]) for entry in drawn), default=1.0)
    chart = Chart(
        Axis(label, 0, max(most, 0.01) * 1.06, percent=True),
        Axis("", -0.6, len(drawn) - 0.4),
        "Importance of the inputs",
        height=78 + 19 * max(1, len(drawn)),
        left=126,
        levels=[entry["name"] for entry in drawn[::-1]],
    )
    for place, entry in enumerate(drawn[::-1]):
        tip = f"{entry['name']}: {entry[name]:.1%}" + ("" if has_share else f" ± {entry['importance_std']:.1%}")
        tip += f"\n{'kept' if entry['kept'] else 'not kept'}; {entry['mean']:.1%} is lost if it is shuffled"
        group = _others(entry)
        tip += f"\ncan stand for: {', '.join(group[:8])}" if group else ""
        chart.box(0, entry[name], place - 0.32, place + 0.32, "bar " + ("c0" if entry["kept"] else "grey"), tip)
        if not has_share:
            ends = (max(0.0, entry[name] - entry["importance_std"]), entry[name] + entry["importance_std"])
            chart.segment((ends[0], place), (ends[1], place), "whisker")
    kept = sum(bool(entry["kept"]) for entry in inputs)
    more = f"; the first {len(drawn)} are drawn" if len(drawn) < len(inputs) else ""
    words = (
        f"None is kept: {nothing_kept}." if nothing_kept else f"{kept} of {len(inputs)} inputs are kept (blue){more}."
    )
    return Panel("Inputs", chart.html(), words)


def effect(entry: dict[str, Any], target: str) -> Panel:
    """Draw how the average prediction changes with an input.

    Args:
        entry: The effect (see `r2d2net.tables.effects`): name, values or levels, curves.
        target: The name of the target.

    Returns:
        The panel.
    """
    curves = entry["curves"]
    ends = [value for curve in curves for part in ("low", "high") for value in curve[part]]
    has_classes = "class" in curves[0]
    y = Axis("probability", 0, 1, percent=True) if has_classes else axis_over(f"average {target}", ends)
    levels = entry.get("levels")
    if levels is not None:
        return _effect_of_levels(entry, y, levels)
    xs = entry["values"]
    is_date = entry.get("kind") == "date"
    label = f"{entry['name']}, year" if is_date else entry["name"]
    at = [1970 + value / 365.25 for value in xs] if is_date else xs
    chart = Chart(axis_over(label, at, margin=0.02), y, f"Effect of {entry['name']}", height=210)
    for place, curve in enumerate(curves):
        kind = f"c{place % COLOURS}"
        chart.band(at, curve["low"], curve["high"], kind)
        chart.line(at, curve["mean"], kind)
        for where, x in enumerate(at):
            shown = str(np.datetime64(round(xs[where]), "D")) if is_date else number_text(x)
            chart.dot(x, curve["mean"][where], kind, f"{entry['name']} {shown}\n{_average(curve, where, target)}")
    return Panel(entry["name"], chart.html(), key=_key(curves))


def _effect_of_levels(entry: dict[str, Any], y: Axis, levels: list[str]) -> Panel:
    curves = entry["curves"]
    height = 62 + 20 * len(levels)
    across = y if "class" in curves[0] else y._replace(label=y.label)
    chart = Chart(
        across,
        Axis("", -0.6, len(levels) - 0.4),
        f"Effect of {entry['name']}",
        height=height,
        left=110,
        levels=levels[::-1],
    )
    for place, curve in enumerate(curves):
        shift = 0.0 if len(curves) == 1 else 0.5 * (place / (len(curves) - 1) - 0.5)
        for where, level in enumerate(levels):
            row = len(levels) - 1 - where - shift
            chart.segment((curve["low"][where], row), (curve["high"][where], row), f"range c{place % COLOURS}")
            tip = f"{entry['name']} {level}\n{_average(curve, where, y.label)}"
            chart.dot(curve["mean"][where], row, f"c{place % COLOURS}", tip)
    return Panel(entry["name"], chart.html(), key=_key(curves))


def _average(curve: dict[str, Any], where: int, target: str) -> str:
    low, mean, high = (curve[part][where] for part in ("low", "mean", "high"))
    if "class" in curve:
        return f"{curve['class']}: {mean:.1%} ({low:.1%} to {high:.1%})"
    return (
        f"{target.removeprefix('average ')} {number_text(mean)} on average ({number_text(low)} to {number_text(high)})"
    )


def _key(curves: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if "class" not in curves[0]:
        return []
    return [(f"c{place % COLOURS}", clipped(curve["class"], 120)) for place, curve in enumerate(curves)]


def weight_bars(candidates: list[dict[str, Any]]) -> Panel:
    """Draw the weights that stacking gave its models.

    Args:
        candidates: The models; uses name, weight and score.

    Returns:
        The panel.
    """
    drawn = sorted(candidates, key=lambda entry: -entry["weight"])[:MOST_BARS]
    chart = Chart(
        Axis("weight", 0, 1, percent=True),
        Axis("", -0.6, len(drawn) - 0.4),
        "Weights of the models",
        height=62 + 19 * len(drawn),
        left=150,
        levels=[entry["name"] for entry in drawn[::-1]],
    )
    for place, entry in enumerate(drawn[::-1]):
        score = "not fitted" if entry["score"] is None else f"left-out rows: {-entry['score']:.4g} nats a row"
        tip = f"{entry['name']}: {entry['weight']:.1%}\n{score}"
        chart.box(0, entry["weight"], place - 0.32, place + 0.32, "bar c0", tip)
    return Panel("Models and their weights", chart.html())


def learning_curve(history: list[dict[str, float]]) -> Panel:
    """Draw the negative log likelihood of training and validation rows after each epoch.

    Args:
        history: One entry for each epoch; uses epoch, nll and validation.

    Returns:
        The panel.
    """
    kept = history[:: max(1, math.ceil(len(history) / MOST_EPOCHS))]
    series = [
        (name, [(entry["epoch"], entry[name]) for entry in kept if name in entry]) for name in ("nll", "validation")
    ]
    series = [(name, points) for name, points in series if points]
    values = [value for _, points in series for _, value in points]
    high = float(np.quantile(values, 0.95)) if len(values) > 20 else max(values)
    y = axis_over("negative log likelihood, nats a row", [min(values), high], margin=0.1)
    chart = Chart(
        axis_over("epoch", [point[0] for _, points in series for point in points], margin=0.01), y, "Learning curve"
    )
    for place, (name, points) in enumerate(series):
        chart.line([x for x, _ in points], [min(value, y.high) for _, value in points], f"c{place}")
        x, value = points[-1]
        rows = "training rows" if name == "nll" else "validation rows"
        chart.dot(x, min(value, y.high), f"c{place}", f"{rows} after epoch {x}: {value:.4g}")
    key = [(f"c{i}", "training rows" if name == "nll" else "validation rows") for i, (name, _) in enumerate(series)]
    return Panel("Learning curve", chart.html(), key=key)


def _some(rows: pd.DataFrame) -> pd.DataFrame:
    return rows if len(rows) <= MOST_POINTS else rows.sample(MOST_POINTS, random_state=0)


def _inside(rows: pd.DataFrame) -> np.ndarray:
    return ((rows["low"] <= rows["observed"]) & (rows["observed"] <= rows["high"])).to_numpy()


def _scaled_errors(rows: pd.DataFrame) -> np.ndarray:
    return ((rows["observed"] - rows["mean"]) / rows["sd"].clip(lower=1e-300)).to_numpy(float)


def _spread_by_size(z: np.ndarray, mean: np.ndarray) -> str:
    """Say whether errors are larger where predictions are, by the rank correlation at a level of 1%."""
    if len(z) < 30 or np.ptp(mean) == 0:
        return ""
    ranks = [np.argsort(np.argsort(values)) for values in (np.abs(z), mean)]
    correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    if abs(correlation) * math.sqrt(len(z) - 1) < 2.58:
        return "Errors are about as wide everywhere."
    return f"Errors are wider than predicted where predictions are {'large' if correlation > 0 else 'small'}."


def _frequent(observed: np.ndarray, classes: Sequence[str]) -> list[str]:
    """Return the classes to draw: all in their order, or the most frequent ones."""
    if len(classes) <= MOST_CLASSES:
        return list(classes)
    names, counts = np.unique(observed, return_counts=True)
    first = set(names[np.argsort(-counts, kind="stable")][: MOST_CLASSES - 1])
    return [label for label in classes if label in first]


def _others(entry: dict[str, Any]) -> list[str]:
    return [name for name in entry.get("group") or [] if name != entry["name"]]


def number_text(value: float) -> str:
    """Write a number with four digits, or all digits before the point below ten million."""
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e7 else f"{value:.4g}"
