"""The results of a grid for other programs: the compared tables as results.json, all cells as results.parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from r2d2net.errors import ParameterError, Shown
from r2d2net.files import replace_when_written
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.table_layouts import MetricComparison

HINT = "results.parquet needs pyarrow: pip install 'r2d2net[parquet]'"


def has_parquet() -> bool:
    """Whether pyarrow is installed, which writes Parquet files."""
    return find_spec("pyarrow") is not None


def flat_table(grid: GridResults) -> pd.DataFrame:
    """Make a table with a line for each result and a column for each number.

    Args:
        grid: The results.

    Returns:
        The table; its columns are named ``settings.row``, ``result.mse``, ``versions.torch`` and so on. Lists, and
        values of columns with more than one type, are JSON texts.
    """
    table = pd.json_normalize(grid.results)
    for name in table.columns:
        column = table[name]
        kinds = {type(value) for value in column[column.notna()]}
        if kinds & {list, dict} or len(kinds - {int, float}) + bool(kinds & {int, float}) > 1:
            table[name] = [
                json.dumps(value) if there else None for value, there in zip(column, column.notna(), strict=True)
            ]
    return table


def write_parquet(grid: GridResults, path: Path) -> None:
    """Write the table of `flat_table` as a Parquet file.

    Raises:
        ParameterError: pyarrow is not installed.
    """
    if not has_parquet():
        raise ParameterError("needs pyarrow", value=Shown("results.parquet"), fix="pip install 'r2d2net[parquet]'")
    with replace_when_written(path) as partial:
        flat_table(grid).to_parquet(partial, engine="pyarrow", index=False)


def comparison_summary(grid: GridResults, comparisons: Iterable[MetricComparison]) -> dict[str, Any]:
    """Collect the compared tables as plain JSON, which is the same for the same results.

    Args:
        grid: The results.
        comparisons: Every metric of the grid's tables.

    Returns:
        The content of results.json.
    """
    return {
        "artefact": grid.name,
        "scale": grid.about["scale"],
        "variant": grid.variant,
        "cells": len(grid.about["cells"]),
        "missing": grid.missing,
        "tables": [
            {
                "metric": comparison.metric,
                "title": comparison.title,
                "entries": [
                    {
                        "setting": entry.setting,
                        "row": entry.row,
                        "mean": _finite(entry.mean),
                        "standard_error": _finite(entry.error),
                        "replicates": entry.replicates,
                        "paper": None if entry.paper is None else entry.paper.value,
                        "paper_sd": None if entry.paper is None else entry.paper.sd,
                        "mark": entry.verdict,
                    }
                    for entry in comparison.entries
                ],
            }
            for comparison in comparisons
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
