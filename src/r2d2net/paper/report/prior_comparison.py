"""The paper's comparison of priors, `r2d2net priors`: a figure of the densities and a table of the rates.

Densities are drawn in units in which every prior has P(|w| < 1) = 1/2, so that the figure compares shapes, not scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table

from r2d2net.files import replace_when_written, write_json
from r2d2net.paper.prior_rates import Rate, RateRow
from r2d2net.provenance import provenance
from r2d2net.report.drawing import PALETTE

TIE = 1e-3  # exponents that differ by less count as equal


def save_comparison(rows: Sequence[RateRow], folder: Path, kind: str = "png") -> list[Path]:
    """Write the figure of the densities and the numbers of the table.

    Args:
        rows: The priors with their rates and densities.
        folder: The folder for the files, which is made if need be.
        kind: The format of the figure, png or svg.

    Returns:
        The figure and the JSON file of the numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    picture, numbers = folder / f"priors.{kind}", folder / "rates.json"
    figure = draw(rows)
    with replace_when_written(picture) as partial:
        figure.savefig(partial, format=kind, dpi=150)
    settings = {row.label: {"prior": row.prior, **row.hyperparameters} for row in rows}
    rates = {
        row.label: {
            end: {"theory": theory._asdict(), "measured": measured._asdict()}
            for end, theory, measured in (
                ("zero", row.zero, row.measured_zero),
                ("tail", row.tail, row.measured_tail),
            )
        }
        for row in rows
    }
    write_json(numbers, {"rates": rates, "verdict": verdict(rows), **provenance(settings)})
    return [picture, numbers]


def rates_as_table(rows: Sequence[RateRow]) -> Table:
    """Lay out the table of rates for a terminal."""
    table = Table(
        title="How priors behave at zero and in the tail", caption=f"* not in the paper's table. {verdict(rows)}"
    )
    for column in ("prior", "at zero: theory", "measured", "tail: theory", "measured"):
        table.add_column(column, overflow="fold")
    for row in rows:
        name = row.label if row.in_paper else f"{row.label} *"
        zero, tail = (row.zero, row.measured_zero), (row.tail, row.measured_tail)
        table.add_row(name, *(formula(rate, digits) for rate, digits in zip(zero + tail, (4, 7, 4, 7), strict=True)))
    return table


def verdict(rows: Sequence[RateRow]) -> str:
    """Say whether the measured rates bear out the paper's claims for its own setting.

    Args:
        rows: The priors, among them R2D2 with the paper's setting and the horseshoe.

    Returns:
        Two sentences: the finding with the measured rates, and what a pole and a heavier tail need.
    """
    paper, horseshoe = (
        next(row for row in rows if row.label.startswith(start)) for start in ("R2D2 (paper", "Horseshoe")
    )
    pole = paper.measured_zero.power < -TIE
    heavier = paper.measured_tail.power > horseshoe.measured_tail.power + TIE
    findings = {
        (False, False): "has neither the pole at zero nor a tail heavier than the horseshoe's",
        (True, False): "has the pole at zero but no tail heavier than the horseshoe's",
        (False, True): "has a tail heavier than the horseshoe's but no pole at zero",
        (True, True): "has the pole at zero and a tail heavier than the horseshoe's",
    }
    a_pi, b = (paper.hyperparameters[name] for name in ("a_pi", "b"))
    rates = f"{formula(paper.measured_zero)} and {formula(paper.measured_tail)}"
    return (
        f"The paper's own setting, a_pi = {a_pi:g} and b = {b:g}, {findings[pole, heavier]}: measured {rates}. "
        "A pole needs a_pi < 1/2, a heavier tail b < 1/2."
    )


def formula(rate: Rate, digits: int = 4) -> str:
    """Write a rate as a formula in |w|.

    Args:
        rate: The rate.
        digits: Significant digits of its exponents.

    Returns:
        The formula.

    >>> formula(Rate(-2.0, log_power=1.0))
    '|w|^-2 log^1'
    >>> formula(Rate(0.0))
    '1'
    """
    parts = []
    if abs(rate.power) > TIE:
        parts.append(f"|w|^{rate.power:.{digits}g}")
    if rate.log_power:
        parts.append(f"log^{rate.log_power:.{digits}g}")
    if rate.stretch:
        parts.append(f"exp(-{rate.coefficient:.{digits}g} |w|^{rate.stretch:g})")
    return " ".join(parts) or "1"


def draw(rows: Sequence[RateRow]) -> Figure:
    """Draw the densities of all priors on logarithmic axes, near zero and in the tail."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    near, far = figure.subplots(1, 2)
    for index, row in enumerate(rows):
        style = {
            "color": PALETTE[index % len(PALETTE)],
            "linestyle": ("-" if index < len(PALETTE) else "-.") if row.in_paper else (":", "--")[index % 2],
            "linewidth": 4.0 if row.label.startswith("R2D2") else 1.5,
            "zorder": 2 if row.label.startswith("R2D2") else 3,  # where curves meet both are seen
            "label": row.label if row.in_paper else f"{row.label} *",
        }
        for ax, curve in ((near, row.near), (far, row.far)):
            ax.plot(curve.w, curve.density, **style)
    for ax, title in ((near, "near zero"), (far, "in the tail")):
        ax.set(xscale="log", yscale="log", xlabel="|w|, in units of its prior median", title=f"Density {title}")
        ax.grid(alpha=0.25)
    near.set_ylabel("marginal prior density, in the same units")
    far.set_ylim(1e-12, 1)
    figure.legend(*near.get_legend_handles_labels(), fontsize=9, ncols=3, loc="outside lower center")
    return figure
