"""Learn from training rows what each column is (see `columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from r2d2net.errors import DataError
from r2d2net.tables.cells import READABLE, Values, alike, codes, is_empty, numbers
from r2d2net.tables.column_kinds import Category, Column, Number
from r2d2net.tables.columns import Columns, chosen
from r2d2net.tables.conventions import SECONDS, UNKNOWN, Convention, Form, date_form, is_duration, is_iso, number_form
from r2d2net.tables.number_formats import leading_zeros, unit_of, written_days, written_numbers

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 30
MOST_RARE = 1000  # rare levels that are remembered, to tell them from what training rows did not have
RARE = 0.005  # share of the rows below which a level is rare; a level of one row always is
FEW_LEVELS = 20  # a column of more levels, half of them alone, is an identifier
MOST_INPUTS = 5_000  # some minutes: what is unlike needs time by their cube


def learn_columns(
    table: pd.DataFrame,
    target: str,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
    convention: Convention = UNKNOWN,
) -> Columns:
    """What the columns but the target are.

    Args:
        table: The training rows.
        target: The column that is no input.
        categorical: Columns that are categories even if written in numbers, as `chosen` takes them.
        ignore: Columns to leave out.
        keep: Columns to use even if they look like row numbers or identifiers.
        convention: How doubtful numbers and dates are read (see `conventions`).
    """
    names = [str(name) for name in table.columns]
    told = chosen(categorical, names, "categorical")
    without, kept = chosen(ignore, names, "ignore"), chosen(keep, names, "keep")
    used: list[Column] = []
    left_out: dict[str, str] = {}
    read_as: dict[str, str] = {}
    for name in names:
        if name == target:
            continue
        if name in without:
            left_out[name] = "as told"
            continue
        found, said = learn_column(name, table[name], convention, categorical=name in told, keep=name in kept)
        if isinstance(found, str):
            left_out[name] = f"{found}; {said}" if said else found
        else:
            used.append(found)
            if said:
                read_as[name] = said
    inputs = sum(len(column.inputs) for column in used)
    if not used:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in list(left_out.items())[:5]) or "there is no other"
        raise DataError(f"no column besides {target!r} can be used: {reasons}")
    if inputs > MOST_INPUTS:
        raise DataError(f"the columns make {inputs} inputs, more than {MOST_INPUTS}: leave some out by --ignore")
    return Columns(tuple(used), left_out, read_as)


def learn_column(
    name: str, column: pd.Series, convention: Convention, *, categorical: bool, keep: bool
) -> tuple[Column | str, str]:
    """What one column is, or why it is left out; and what should be said of how it was read."""
    if not column.notna().any():
        return "empty", ""
    found = Form("", "", "") if categorical else form_of(column, convention)
    if found.kind:
        read = written_days if found.kind == "date" else written_numbers
        values = read(column, found.form)
        unreadable = bool((np.isnan(values) & ~is_empty(column)).any())
        return _number(name, found, values, column.index.to_numpy(), keep, unreadable), found.said
    said = found.said or ("" if categorical else unit_of(column))
    return _category(name, alike(codes(column)), categorical or keep), said


def form_of(column: pd.Series, convention: Convention) -> Form:
    """What a column's cells are: numbers or dates, plain ones or in another form; the kind "" is categories."""
    if is_duration(column):
        return Form("number", "", SECONDS)
    code = leading_zeros(column)
    if code is not None:
        return Form("", "", f"{code!r} has leading zeros, so it is read as codes, not numbers")
    found = number_form(column, convention.decimal)
    if found is not None:
        return found
    if _is_plain(column):
        return Form("number", "", "")
    if is_iso(column):
        return Form("date", "", "")
    return date_form(column, convention.dates) or Form("", "", "")


def _is_plain(column: pd.Series) -> bool:
    """Whether a column, which may be of numbers and not texts, holds plain numbers."""
    there = ~np.isnan(numbers(column))
    return int(there.sum()) >= READABLE * max(1, int((~is_empty(column)).sum()))


def _number(name: str, found: Form, values: Values, rows: np.ndarray, keep: bool, unreadable: bool) -> Number | str:
    there = ~np.isnan(values)
    median = float(np.median(values[there]))
    low, high = float(values[there].min()), float(values[there].max())
    whole = np.where(there, values, median)
    mean, sd = float(whole.mean()), float(whole.std())
    if not sd > 1e-12 * max(abs(mean), abs(low), abs(high)):  # rounding errors are no deviation
        return "constant"
    row_number = found.kind == "number" and there.all() and len(rows) > 2 and np.ptp(values - rows) == 0
    if row_number and not keep:
        return f"the number of the row; --keep {name!r} uses it, a time for example"
    gaps = not there.all()
    return Number(name, found.kind, median, mean, sd, low, high, gaps, form=found.form, unreadable=unreadable)


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
        return "constant" if len(counts) < 2 else "every level is rare"
    known = float(counts[levels].sum() / counts.sum())
    rare = sorted(counts.index.difference(levels))[:MOST_RARE]
    return Category(name, levels, other=other, missing=empty, known=known, rare=rare)
