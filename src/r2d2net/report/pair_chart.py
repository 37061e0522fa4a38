"""Pairs of inputs that act together, on the page of a run: the strongest as a heat map, the first as a table."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from r2d2net.report.run_charts import Panel, number_text
from r2d2net.report.svg_charts import Axis, Chart, table

SHADES = 10  # of the page's style, k0 to k9
MOST_PAIRS = 5  # of the table, for each target


def pair_map(entry: dict[str, Any], target: str) -> Panel:
    """Draw the average prediction over the values of two inputs.

    Args:
        entry: The pair (see `r2d2net.tables.pair_effects`): inputs, axes, mean, low, high and the measures.
        target: The name of the target.

    Returns:
        The panel.
    """
    names, axes = list(entry["inputs"]), list(entry["axes"])
    cells = {part: np.array(entry[part], dtype=float) for part in ("mean", "low", "high")}
    if "levels" in axes[0] and "levels" not in axes[1]:  # names of levels have more room at the left
        names, axes, cells = names[::-1], axes[::-1], {part: values.T for part, values in cells.items()}
    (x_edges, x_texts), (y_edges, y_texts) = _edges(axes[0]), _edges(axes[1])
    has_x_levels, has_y_levels = "levels" in axes[0], "levels" in axes[1]
    labels = [f"{name}, year" if part["kind"] == "date" else name for name, part in zip(names, axes, strict=True)]
    chart = Chart(
        Axis(labels[0], x_edges[0], x_edges[-1]),
        Axis(labels[1], y_edges[0], y_edges[-1]),
        f"{names[0]} and {names[1]} together",
        left=110 if has_y_levels else 46,
        levels=y_texts if has_y_levels else None,
    )
    for place, text in enumerate(x_texts if has_x_levels else ()):
        chart.note(place, text, (360 - 12 - chart.left) / len(x_texts) - 4)
    least, most = float(cells["mean"].min()), float(cells["mean"].max())
    is_class = "class" in entry
    what = f"probability of {entry['class']}" if is_class else target
    for row, y_text in enumerate(y_texts):
        for column, x_text in enumerate(x_texts):
            low, mean, high = (_said(cells[part][row, column], is_class) for part in ("low", "mean", "high"))
            share = (cells["mean"][row, column] - least) / ((most - least) or 1.0)
            tip = f"{names[0]} {x_text}, {names[1]} {y_text}\n{what} {mean} on average ({low} to {high})"
            kind = f"heat k{min(SHADES - 1, int(share * SHADES))}"
            chart.box(x_edges[column], x_edges[column + 1], y_edges[row], y_edges[row + 1], kind, tip)
    words = (
        f"{names[0]} and {names[1]} act together: {entry['share']:.0%} of the variance of the "
        f"{'logits' if is_class else 'predictions'} ({entry['share_low']:.0%} to {entry['share_high']:.0%}) is beyond "
        f"the sum of their own effects (Friedman's H {entry['h']:.2g}). The average {what} is "
        f"{_said(least, is_class)} where it is light and {_said(most, is_class)} where it is dark."
    )
    title = f"{names[0]} and {names[1]} together" + (f" on {entry['target']}" if "target" in entry else "")
    return Panel(title, chart.html(without_x_ticks=has_x_levels), words)


def pairs_table(found: dict[str, Any]) -> list[Markup]:
    """Write the first pairs as a table, with a line that says what the page draws of them.

    Args:
        found: What effects.json has under "interactions".

    Returns:
        The parts of the page; none where no pairs were compared.
    """
    pairs = found.get("pairs") or []
    if not pairs:
        return []
    targets = list(dict.fromkeys(entry.get("target") for entry in pairs))
    lines = [
        [
            f"{entry['inputs'][0]} and {entry['inputs'][1]}" + ("" if target is None else f" on {target}"),
            f"{entry['share']:.1%} ({entry['share_low']:.1%} to {entry['share_high']:.1%})",
            f"{entry['h']:.2f} ({entry['h_low']:.2f} to {entry['h_high']:.2f})",
        ]
        for target in targets
        for entry in [each for each in pairs if each.get("target") == target][:MOST_PAIRS]
    ]
    least = f"{found['least']:.0%}"
    text = "Pairs of the first inputs: what both have beyond the sum of their own effects, as a share of the variance "
    text += f"of the predictions, and Friedman's H. The strongest is drawn if its share is surely above {least}"
    text += "." if found.get("maps") else "; here none is: the effects of these inputs add up."
    return [Markup("<p>{}</p>").format(text), table(["inputs", "share (90% interval)", "H (90% interval)"], lines)]


def _edges(axis: dict[str, Any]) -> tuple[list[float], list[str]]:
    """Return the edges of the cells along an axis, and what its values are called."""
    if "levels" in axis:
        return [place - 0.5 for place in range(len(axis["levels"]) + 1)], [str(level) for level in axis["levels"]]
    values = axis["values"]
    is_date = axis["kind"] == "date"
    at = [1970 + value / 365.25 for value in values] if is_date else list(values)
    texts = [str(np.datetime64(round(value), "D")) if is_date else number_text(value) for value in values]
    middles = [(a + b) / 2 for a, b in pairwise(at)]
    return [at[0] - (middles[0] - at[0]), *middles, at[-1] + (at[-1] - middles[-1])], texts


def _said(value: float, is_class: bool) -> str:
    return f"{value:.1%}" if is_class else number_text(value)
