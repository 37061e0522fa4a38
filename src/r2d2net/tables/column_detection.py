"""Learn from training rows what each column is (see `input_columns`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.errors import Argument, DataError, Value
from r2d2net.tables.cell_parsing import Values
from r2d2net.tables.column_encoders import CategoryEncoder, ColumnEncoder, Counts, Encoded, NumberEncoder
from r2d2net.tables.format_rules import NO_RULES, ColumnFormat, FormatRules, detect_column_format
from r2d2net.tables.input_columns import Columns, chosen_columns
from r2d2net.tables.number_formats import unit_note
from r2d2net.tables.raw_columns import RawColumn, RawTable, merge_truth_values

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 30
MOST_RARE = 1000  # rare levels that are remembered, to tell them from what training rows did not have
RARE = 0.005  # share of the rows below which a level is rare; a level of one row always is
FEW_LEVELS = 20  # a column of more levels, half of them alone, is an identifier
MOST_INPUTS = 5_000  # some minutes: what is unlike needs time by their cube


class LearntInputs(NamedTuple):
    """What the columns of a table are, and its rows as inputs of the network.

    Attributes:
        columns: What was learnt from the training rows.
        encoded: The rows with a known target, training rows and others.
        counts: How many cells of each column were missing, unreadable or rare.
    """

    columns: Columns
    encoded: Encoded
    counts: Counts


def learn_inputs(
    table: pd.DataFrame | RawTable,
    target: str,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
    rules: FormatRules = NO_RULES,
    *,
    rows: np.ndarray | None = None,
    training: np.ndarray | None = None,
) -> LearntInputs:
    """Learn from training rows what the columns are, and encode all rows, one column after the other.

    Args:
        table: The table.
        target: The column that is no input.
        categorical: Columns that are categories even if written in numbers, as `chosen_columns` takes them.
        ignore: Columns to leave out.
        keep: Columns to use even if they look like row numbers or identifiers.
        rules: How ambiguous numbers and dates are read (see `format_rules`).
        rows: Places of the rows to encode; by default all.
        training: Places of the rows to learn from; by default all.

    Returns:
        The columns, and the rows as inputs of the network.

    Raises:
        DataError: No column can be used, or there are more than `MOST_INPUTS` inputs.
    """
    raw = RawTable.of(table)
    everything = np.arange(len(raw))
    rows = everything if rows is None else rows
    training = everything if training is None else training
    as_categories = chosen_columns(categorical, raw.names, "categorical")
    without, kept = chosen_columns(ignore, raw.names, "ignore"), chosen_columns(keep, raw.names, "keep")
    used: list[ColumnEncoder] = []
    parts: list[Encoded] = []
    counts: Counts = Counter()
    left_out: dict[str, str] = {}
    read_as: dict[str, str] = {}
    inputs = 0
    for name in raw.names:
        if name == target:
            continue
        if name in without:
            left_out[name] = "as told"
            continue
        column = raw[name]
        encoder, note = _learn_column(
            name, column.take(training), training, rules, categorical=name in as_categories, keep=name in kept
        )
        if isinstance(encoder, str):
            left_out[name] = f"{encoder}; {note}" if note else encoder
            continue
        used.append(encoder)
        inputs += len(encoder.inputs)
        if inputs <= MOST_INPUTS:
            parts.append(encoder.encode(column.take(rows), counts))
        if note:
            read_as[name] = note
    if not used:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in list(left_out.items())[:5]) or "there is no other"
        raise DataError(
            ("no column besides ", Value(target), f" can be used: {reasons}"),
            fix=("add other columns, or see ", Argument("ignore"), " and ", Argument("keep")),
        )
    if inputs > MOST_INPUTS:
        problem = f"the columns make {inputs} inputs, more than {MOST_INPUTS}"
        raise DataError(problem, fix=("leave some out by ", Argument("ignore")))
    return LearntInputs(Columns(tuple(used), left_out, read_as), Encoded.beside(parts), counts)


def _learn_column(
    name: str, column: RawColumn, rows: np.ndarray, rules: FormatRules, *, categorical: bool, keep: bool
) -> tuple[ColumnEncoder | str, str]:
    """Learn one column, or say why it is left out; and say how it was read."""
    if column.missing.all():
        return "empty", ""
    detected = ColumnFormat("") if categorical else detect_column_format(column, rules)
    if detected.kind:
        values = (column.days if detected.kind == "date" else column.numbers)(detected.format)
        unreadable = bool((np.isnan(values) & ~column.empty).any())
        return _number(name, detected, values, rows, keep, unreadable), detected.note
    note = detected.note or ("" if categorical else unit_note(column))
    return _category(name, merge_truth_values(column.codes), categorical or keep), note


def _number(
    name: str, detected: ColumnFormat, values: Values, rows: np.ndarray, keep: bool, unreadable: bool
) -> NumberEncoder | str:
    there = ~np.isnan(values)
    median = float(np.median(values[there]))
    low, high = float(values[there].min()), float(values[there].max())
    whole = np.where(there, values, median)
    mean, sd = float(whole.mean()), float(whole.std())
    if not sd > 1e-12 * max(abs(mean), abs(low), abs(high)):  # rounding errors are no deviation
        return "constant"
    row_number = detected.kind == "number" and there.all() and len(rows) > 2 and np.ptp(values - rows) == 0
    if row_number and not keep:
        return f"the number of the row; --keep {name!r} uses it, a time for example"
    gaps = not there.all()
    return NumberEncoder(
        name, detected.kind, median, mean, sd, low, high, gaps, form=detected.format, unreadable=unreadable
    )


def _category(name: str, texts: np.ndarray, is_requested: bool) -> CategoryEncoder | str:
    counts = Counter(texts)
    empty = counts.pop(None, 0) > 0
    if not is_requested and len(counts) > FEW_LEVELS and sum(count == 1 for count in counts.values()) > len(counts) / 2:
        return f"{len(counts)} different texts in {len(texts)} rows: an identifier or free text"
    least = max(2, RARE * len(texts))
    frequent = [level for level, count in counts.items() if count >= least]
    levels = sorted(frequent, key=lambda level: (-counts[level], level))[:MOST_LEVELS]
    other = len(levels) < len(counts)
    if len(levels) + other + empty < 2:
        return "constant" if len(counts) < 2 else "every level is rare"
    known = sum(counts[level] for level in levels) / counts.total()
    rare = sorted(counts.keys() - set(levels))[:MOST_RARE]
    return CategoryEncoder(name, levels, other=other, missing=empty, known=known, rare=rare)
