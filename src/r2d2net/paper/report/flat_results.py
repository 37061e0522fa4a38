"""All cells of a grid as one table, a line a cell, in Parquet; and the compared tables as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from r2d2net.errors import ParameterError
from r2d2net.files import replace_when_written
from r2d2net.paper.report.results import Found
from r2d2net.paper.report.table_layouts import Compare

HINT = "results.parquet needs pyarrow: pip install 'r2d2net[parquet]'"


def has_parquet() -> bool:
    """Whether Parquet can be written."""
    return find_spec("pyarrow") is not None


def flat(found: Found) -> pd.DataFrame:
    """A line for each result: ``settings.row``, ``result.mse``, ``versions.torch``; lists as JSON text."""
    table = pd.json_normalize(found.results)
    for name in table.columns:
        column = table[name]
        kinds = {type(value) for value in column[column.notna()]}
        if kinds & {list, dict} or len(kinds - {int, float}) + bool(kinds & {int, float}) > 1:
            table[name] = [
                json.dumps(value) if there else None for value, there in zip(column, column.notna(), strict=True)
            ]
    return table


def write_parquet(found: Found, path: Path) -> None:
    """Write the cells as Parquet."""
    if not has_parquet():
        raise ParameterError(HINT)
    with replace_when_written(path) as partial:
        flat(found).to_parquet(partial, engine="pyarrow", index=False)


def summary(found: Found, tables: Iterable[Compare]) -> dict[str, Any]:
    """The compared tables, plain JSON, the same for the same result files."""
    return {
        "artefact": found.name,
        "scale": found.about["scale"],
        "variant": found.variant,
        "cells": len(found.about["cells"]),
        "missing": found.missing,
        "tables": [
            {
                "metric": one.metric,
                "title": one.title,
                "entries": [
                    {
                        "setting": entry.setting,
                        "row": entry.row,
                        "mean": _finite(entry.mean),
                        "standard_error": _finite(entry.error),
                        "replicates": entry.replicates,
                        "paper": None if entry.paper is None else entry.paper.value,
                        "paper_sd": None if entry.paper is None else entry.paper.sd,
                        "mark": entry.mark,
                    }
                    for entry in one.entries
                ],
            }
            for one in tables
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
