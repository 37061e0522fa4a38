"""Learn from training rows what each column is (see `columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from r2d2net.errors import DataError, ParameterError
from r2d2net.tables.cells import READABLE, Values, codes, days, is_empty, numbers
from r2d2net.tables.columns import Category, Column, Columns, Number
from r2d2net.tables.reading import shown

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 30
RARE = 0.005  # share of the rows below which a level is rare; a level of one row always is
FEW_LEVELS = 20  # a column of more levels, half of them alone, is an identifier
MOST_INPUTS = 20_000


def learn_columns(
    table: pd.DataFrame, target: str, categorical: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Columns:
    """What the columns but the target are; ``categorical`` are categories even if written in numbers."""
    for option, names in (("categorical", categorical), ("ignore", ignore)):
        unknown = [name for name in names if name not in table.columns]
        if unknown:
            raise ParameterError(f"--{option} names {shown(unknown)}: the table has {shown(list(table.columns))}")
    used: list[Column] = []
    left_out: dict[str, str] = {}
    for name in table.columns:
        if name == target:
            continue
        found = "as told" if name in ignore else learn_column(name, table[name], categorical=name in categorical)
        if isinstance(found, str):
            left_out[name] = found
        else:
            used.append(found)
    inputs = sum(len(column.inputs) for column in used)
    if not used:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in list(left_out.items())[:5]) or "there is no other"
        raise DataError(f"no column besides {target!r} can be used: {reasons}")
    if inputs > MOST_INPUTS:
        raise DataError(f"the columns make {inputs} inputs, more than {MOST_INPUTS}: leave some out by --ignore")
    return Columns(tuple(used), left_out)


def learn_column(name: str, column: pd.Series, *, categorical: bool = False) -> Column | str:
    """What one column is, or why it is left out."""
    if not column.notna().any():
        return "empty"
    filled = int((~is_empty(column)).sum())
    if not categorical:
        for kind, read in (("number", numbers), ("date", days)):
            values = read(column)
            readable = int((~np.isnan(values)).sum())
            if readable and readable >= READABLE * filled:
                return _number(name, kind, values, column.index.to_numpy())
    return _category(name, codes(column), categorical)


def _number(name: str, kind: str, values: Values, rows: np.ndarray) -> Number | str:
    there = ~np.isnan(values)
    median = float(np.median(values[there]))
    whole = np.where(there, values, median)
    mean, sd = float(whole.mean()), float(whole.std())
    if not sd > 1e-12 * max(abs(mean), float(np.abs(whole).max())):  # rounding errors are no deviation
        return "constant"
    if kind == "number" and there.all() and len(rows) > 2 and np.ptp(values - rows) == 0:
        return "the number of the row"
    return Number(name, kind, median, mean, sd)


def _category(name: str, cells: pd.Series, told: bool) -> Category | str:
    counts = cells.value_counts()
    rows = len(cells)
    empty = bool(cells.isna().any())
    if not told and len(counts) > FEW_LEVELS and int((counts == 1).sum()) > len(counts) / 2:
        return f"{len(counts)} different texts in {rows} rows: an identifier or free text"
    least = max(2, RARE * rows)
    levels = sorted(counts.index[counts >= least], key=lambda level: (-counts[level], level))[:MOST_LEVELS]
    other = len(levels) < len(counts)
    if len(levels) + other + empty < 2:
        return "constant"
    return Category(name, levels, other=other, missing=empty)
