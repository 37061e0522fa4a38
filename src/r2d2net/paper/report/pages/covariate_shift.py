"""The page of "covariate-shift": accuracy, NLL and calibration error of each row by severity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_tables import Columns, row_table

MEASURES = {"accuracy": "Accuracy (%)", "nll": "Negative log likelihood, nats an image", "ece": "Calibration error"}


def text(grid: GridResults) -> str:
    """Write a table by severity for each measure, means over the kinds, and one by kind at severity 5."""
    if not grid.results:
        return ""
    kinds = list(grid.results[0]["result"]["shifts"])
    severities = range(len(grid.results[0]["result"]["shifts"][kinds[0]]) + 1)
    parts = [f"Severity 0 is clean test images; others are means over {', '.join(kinds)}.\n"]
    for measure, title in MEASURES.items():
        by_severity: Columns = {f"severity {severity}": _Mean(measure, severity) for severity in severities}
        parts.append(f"## {title} by severity\n\n" + row_table(grid, by_severity))
    for measure, title in MEASURES.items():
        by_kind: Columns = {kind: _Mean(measure, severities[-1], (kind,)) for kind in kinds}
        parts.append(f"## {title} by kind, at severity {severities[-1]}\n\n" + row_table(grid, by_kind))
    return "\n".join(parts)


class _Mean:
    """The mean of a measure over kinds of corruption, at one severity."""

    def __init__(self, measure: str, severity: int, kinds: tuple[str, ...] | None = None) -> None:
        self.measure, self.severity, self.kinds = measure, severity, kinds

    def __call__(self, result: Mapping[str, Any]) -> float:
        if self.severity == 0:
            return float(result["clean"][self.measure])
        kinds = self.kinds or tuple(result["shifts"])
        return sum(float(result["shifts"][kind][self.severity - 1][self.measure]) for kind in kinds) / len(kinds)
