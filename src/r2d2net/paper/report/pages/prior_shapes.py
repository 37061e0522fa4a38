"""The page of "priors": the paper's Table 1 with exponents by theory and as measured, and the densities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from r2d2net.paper.prior_rates import RateRow
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.report.markdown_text import pipe_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def text(grid: GridResults) -> str:
    """Write the table of rates, and what it says of the paper's setting."""
    from r2d2net.paper.report.prior_comparison import formula, verdict

    rows = _rows(grid)
    if not rows:
        return ""
    lines = [
        [
            row.label if row.in_paper else f"{row.label} (not in the paper's table)",
            formula(row.zero),
            formula(row.measured_zero, 7),
            formula(row.tail),
            formula(row.measured_tail, 7),
        ]
        for row in rows
    ]
    parts = [
        "## Rates at zero and in the tail\n\nHow the density behaves as |w| goes to 0 and to infinity. Theory is the "
        "paper's Table 1, with R2D2's rate at zero as it is: |w|^(2 a_pi - 1) for a_pi below 1/2 and a finite density "
        "above, where the table's exponent would have the density vanish at zero. Measured exponents are derivatives "
        "of the densities themselves.\n",
        pipe_table(["prior", "at zero: theory", "measured", "tail: theory", "measured"], lines),
    ]
    if {"R2D2 (paper", "Horseshoe"} <= {start for start in ("R2D2 (paper", "Horseshoe") if _has(rows, start)}:
        parts.append(verdict(rows) + "\n")
    return "\n".join(parts)


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw the densities on logarithmic axes."""
    from r2d2net.paper.report.prior_comparison import draw as draw_rows

    rows = _rows(grid)
    caption = "Marginal densities of the priors (* not in the paper's table)"
    return {caption: draw_rows(rows)} if rows else {}


def _rows(grid: GridResults) -> list[RateRow]:
    return [RateRow.of(cell["result"]) for cell in grid.results]


def _has(rows: list[RateRow], start: str) -> bool:
    return any(row.label.startswith(start) for row in rows)
