"""A posterior in notebooks: a table of its layers, and a plot of its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from r2d2net.errors import DataError
from r2d2net.notebook_tables import axes_for, html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def summary_table(draws: Iterable[Mapping[str, Tensor]], priors: Mapping[str, str]) -> pd.DataFrame:
    """Summarise posterior draws of the weights by parameter, one draw in memory at a time.

    Args:
        draws: For each draw the weights by the name of their parameter.
        priors: The prior of each parameter.

    Returns:
        A row for each parameter: its shape, number of weights and prior; the root mean square of the posterior means
        and of the posterior standard deviations; and the share of weights whose mean is less than one standard
        deviation.
    """
    import pandas as pd

    sums: dict[str, Tensor] = {}
    squares: dict[str, Tensor] = {}
    count = 0
    for draw in draws:
        count += 1
        for name, weights in draw.items():
            values = weights.double()
            sums[name] = sums[name] + values if count > 1 else values
            squares[name] = squares[name] + values.square() if count > 1 else values.square()
    rows = []
    for name, prior in priors.items():
        mean = sums[name] / count
        variance = (squares[name] / count - mean.square()).clamp(min=0)
        rows.append(
            {
                "parameter": name,
                "shape": " x ".join(map(str, mean.shape)),
                "weights": mean.numel(),
                "prior": prior,
                "rms mean": float(mean.square().mean().sqrt()),
                "rms sd": float(variance.mean().sqrt()),
                "within one sd of 0": float((mean.abs() < variance.sqrt()).double().mean()),
            }
        )
    return pd.DataFrame(rows).set_index("parameter")


def html_facts(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Write facts of a posterior as HTML.

    Args:
        title: The line above.
        facts: Names and values.

    Returns:
        The markup, with all strings escaped.
    """
    return html_table(title, ["", ""], facts)


def draw_history(history: Sequence[Mapping[str, float]], ax: Axes | None = None) -> Axes:
    """Draw the negative log likelihood of training rows, and of validation rows, after each epoch.

    Args:
        history: One entry for each epoch.
        ax: Axes to draw on; a new figure by default.

    Returns:
        The axes.

    Raises:
        DataError: If there is no history to draw.
        ParameterError: If matplotlib is not installed.
    """
    curves = {
        label: [(entry.get("epoch", place + 1), entry[name]) for place, entry in enumerate(history) if name in entry]
        for name, label in (("nll", "training rows"), ("validation", "validation rows"))
    }
    if not any(curves.values()):
        raise DataError("has no epoch with a loss", argument="history", fix="plot that of a posterior which `fit` made")
    axes = axes_for(ax)
    for label, points in curves.items():
        if points:
            axes.plot(*zip(*points, strict=True), linewidth=1.5, label=label)
    axes.set(xlabel="epoch", ylabel="negative log likelihood, standardised units")
    axes.legend(frameon=False, fontsize="small")
    return axes


def facts_of(
    settings: Mapping[str, Any], history: Sequence[Mapping[str, float]], health: Mapping[str, Any]
) -> list[tuple[str, object]]:
    """List what a posterior knows of its fit.

    Args:
        settings: The settings of the run.
        history: One entry for each epoch.
        health: How the fit does on its own training rows.

    Returns:
        Names and values.
    """
    facts: list[tuple[str, object]] = []
    if "chosen" in settings:
        facts.append(("chosen", settings["chosen"]))
    if history:
        facts.append(("epochs", len(history)))
        facts += [
            (f"last {name}", float(history[-1][name])) for name in ("nll", "validation", "kl") if name in history[-1]
        ]
    if health:
        facts.append(("on training rows", health.get("verdict", "")))
        facts += [("health", health["line"].removeprefix("health: "))] if "line" in health else []
        facts += [
            (name, value)
            for name, value in health.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
    return facts
