"""Learn from training rows what each column is (see `input_columns`).

A category has an input for each level that is not rare, if there are at most 100 of them and 10 training rows for each
(20 levels in any table), and if the rare ones make up a tenth of the cells at most. A category of more levels is
encoded by averages of the target (`target_statistics`). What is seen once in half of the cells is an identifier.

A missing cell is a level, or has an indicator, where max(10, 1%) of the training rows have one. Fewer rows do not tell
what it means: an input that is 1 in 4 of 40,000 rows is 100 standard deviations away from its mean there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_encoders import CategoryEncoder, Counts, Encoded, NumberEncoder
from r2d2net.columns.date_inputs import DateEncoder, date_parts, part_inputs
from r2d2net.columns.format_rules import NO_RULES, ColumnFormat, FormatRules, detect_column_format
from r2d2net.columns.input_columns import ColumnEncoder, Columns, chosen_columns
from r2d2net.columns.number_formats import unit_note
from r2d2net.columns.phrases import listed
from r2d2net.columns.raw_columns import RawColumn, RawTable, merge_truth_values
from r2d2net.columns.target_statistics import learn_statistics
from r2d2net.errors import Argument, DataError, Value

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 100  # a level of fewer rows than 1% is better estimated together with the others
ROWS_OF_LEVEL = 10  # training rows for each level, so that inputs do not outnumber what can be learnt of them
MOST_RARE = 1000  # rare levels that are remembered, to tell them from what training rows did not have
RARE = 0.005  # share of the rows below which a level is rare; a level of one row always is
FEW_LEVELS = 20  # so many levels need no averages, and are no identifier
MOST_OTHER = 0.1  # share of the cells that may be of rare levels
IDENTIFIER = 0.5  # share of the cells that are seen once from which a column is an identifier
COMMON_ROWS, COMMON = 10, 0.01  # rows, and share of them, from which missing cells or rare levels have an input
MOST_INPUTS = 5_000  # some minutes: what is unlike needs time by their cube


class Targets(NamedTuple):
    """Targets of the training rows, for averages by level.

    Attributes:
        values: Numbers, or 0 and 1 for each class, of two classes for the second, (rows, outputs).
        classes: Names of the outputs where there are several.
        seed: Seed of the folds by which training rows are encoded.
    """

    values: Values
    classes: list[str]
    seed: int

    @classmethod
    def of(cls, y: Values, classes: Sequence[str], seed: int) -> Targets:
        """Make targets of what a task reads.

        Args:
            y: Numbers, or places in ``classes``; of several targets (rows, targets).
            classes: The classes; for numbers the names of the targets, which matter where there are several.
            seed: Seed of the folds.
        """
        if y.ndim == 2:
            return cls(y, list(classes), seed)
        if len(classes) < 2:
            return cls(y[:, None], [], seed)
        if len(classes) == 2:
            return cls((y == 1).astype(np.float64)[:, None], [], seed)
        return cls((y[:, None] == np.arange(len(classes))).astype(np.float64), list(classes), seed)


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
    target: str | Sequence[str] | None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
    rules: FormatRules = NO_RULES,
    *,
    rows: np.ndarray | None = None,
    training: np.ndarray | None = None,
    targets: Targets | None = None,
) -> LearntInputs:
    """Learn from training rows what the columns are, and encode all rows, one column after the other.

    Args:
        table: The table.
        target: The column that is no input, or several; None where all are.
        categorical: Columns that are categories even if written in numbers, as `chosen_columns` takes them.
        ignore: Columns to leave out.
        keep: Columns to use even if they look like row numbers or identifiers.
        rules: How ambiguous numbers and dates are read (see `format_rules`).
        rows: Places of the rows to encode; by default all.
        training: Places of the rows to learn from; by default all.
        targets: Targets of those rows; without them, columns of many levels are left out.

    Returns:
        The columns, and the rows as inputs of the network.

    Raises:
        DataError: No column can be used, or there are more than `MOST_INPUTS` inputs.
    """
    raw = RawTable.of(table)
    targets_named = [target] if isinstance(target, str) else list(target or ())
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
    gaps: set[bytes] = set()
    is_training = np.isin(rows, training)
    inputs = 0
    for name in raw.names:
        if name in targets_named:
            continue
        if name in without:
            left_out[name] = "as told"
            continue
        column = raw[name]
        options = _Options(categorical=name in as_categories, keep=name in kept, targets=targets, gaps=gaps)
        learnt = _learn_column(name, column.take(training), training, rules, options)
        note = learnt.note
        if isinstance(learnt.encoder, str):
            left_out[name] = f"{learnt.encoder}; {note}" if note else learnt.encoder
            continue
        used.append(learnt.encoder)
        inputs += len(learnt.encoder.inputs)
        if inputs <= MOST_INPUTS:
            encoded = learnt.encoder.encode(column.take(rows), counts)
            if learnt.fitted is not None:  # training rows are encoded without their own targets
                encoded.x[is_training] = learnt.fitted
            parts.append(encoded)
        if note:
            read_as[name] = note
    if not used:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in list(left_out.items())[:5]) or "there is no other"
        if target is None:
            raise DataError(f"no column can be used: {reasons}", fix="add other columns")
        raise DataError(
            ("no column besides ", Value(", ".join(targets_named)), f" can be used: {reasons}"),
            fix=("add other columns, or see ", Argument("ignore"), " and ", Argument("keep")),
        )
    if inputs > MOST_INPUTS:
        problem = f"the columns make {inputs} inputs, more than {MOST_INPUTS}"
        raise DataError(problem, fix="drop some" if target is None else ("leave some out by ", Argument("ignore")))
    return LearntInputs(Columns(tuple(used), left_out, read_as), Encoded.beside(parts), counts)


class _Options(NamedTuple):
    """What is known of a column besides its cells; ``gaps`` are the patterns of missing cells that have an input."""

    categorical: bool
    keep: bool
    targets: Targets | None
    gaps: set[bytes]


class _Learnt(NamedTuple):
    """An encoder or why there is none, what is said of it, and the training rows where they are encoded otherwise."""

    encoder: ColumnEncoder | str
    note: str
    fitted: Values | None = None


def _learn_column(name: str, column: RawColumn, rows: np.ndarray, rules: FormatRules, options: _Options) -> _Learnt:
    if column.missing.all():
        return _Learnt("empty", "")
    detected = ColumnFormat("") if options.categorical else detect_column_format(column, rules)
    if detected.kind:
        values = (column.days if detected.kind == "date" else column.numbers)(detected.format)
        unreadable = bool((np.isnan(values) & ~column.empty).any())
        encoder = _number(name, detected, values, rows, options, unreadable)
        parts = encoder.parts if isinstance(encoder, DateEncoder) else []
        said = f"used as {listed(['trend', *parts], 'and')}" if parts else ""
        return _Learnt(encoder, "; ".join(filter(None, [detected.note, said])))
    note = detected.note or ("" if options.categorical else unit_note(column))
    learnt = _category(name, merge_truth_values(column.codes), options)
    return learnt._replace(note="; ".join(filter(None, [note, learnt.note])))


def _is_common(count: int, rows: int) -> bool:
    return count >= max(COMMON_ROWS, COMMON * rows)


def _number(
    name: str, detected: ColumnFormat, values: Values, rows: np.ndarray, options: _Options, unreadable: bool
) -> NumberEncoder | str:
    there = ~np.isnan(values)
    known = values if there.all() else values[there]
    median = float(np.median(known))
    low, high = float(known.min()), float(known.max())
    whole = values if there.all() else np.where(there, values, median)
    mean, sd = float(whole.mean()), float(whole.std())
    if not sd > 1e-12 * max(abs(mean), abs(low), abs(high)):  # rounding errors are no deviation
        return "constant"
    row_number = detected.kind == "number" and there.all() and len(rows) > 2 and np.ptp(values - rows) == 0
    if row_number and not options.keep:
        return f"the number of the row; --keep {name!r} uses it, a time for example"
    gaps = not there.all()
    indicator = _is_common(int((~there).sum()), len(values))
    if indicator:  # columns that are missing together need one indicator
        pattern = np.packbits(~there).tobytes()
        indicator = pattern not in options.gaps
        options.gaps.add(pattern)
    number = (name, detected.kind, median, mean, sd, low, high, gaps, detected.format, unreadable, indicator)
    if detected.kind == "number":
        return NumberEncoder(*number)
    parts = date_parts(known)
    return DateEncoder(*number, parts, part_inputs(known, parts).mean(0).tolist() if parts else [])


def _category(name: str, texts: np.ndarray, options: _Options) -> _Learnt:
    counts = Counter(texts)
    missing = counts.pop(None, 0)
    filled, is_requested = counts.total(), options.categorical or options.keep
    if not is_requested and len(counts) > FEW_LEVELS:
        alone = sum(count == 1 for count in counts.values())
        if alone >= IDENTIFIER * filled:
            seen = f"{alone:,} of them in one row only"
            return _Learnt(f"{len(counts):,} different texts in {filled:,} cells, {seen}: an identifier or a name", "")
    missing_is_level = _is_common(missing, len(texts))
    least = max(2, RARE * len(texts))
    levels = sorted((level for level, count in counts.items() if count >= least), key=lambda x: (-counts[x], x))
    others = filled - sum(counts[level] for level in levels)
    most = max(FEW_LEVELS, min(MOST_LEVELS, len(texts) // ROWS_OF_LEVEL))
    if len(levels) > most or (len(counts) > FEW_LEVELS and others > MOST_OTHER * filled):
        return _by_target(name, texts, counts, missing_is_level, options)
    # a few cells of rare levels have no input of their own either, unless it takes them to have two levels
    other = _is_common(others, len(texts)) or (others > 0 and len(levels) + missing_is_level < 2)
    if len(levels) + other + missing_is_level < 2:
        return _Learnt("constant" if len(counts) < 2 else "every level is rare", "")
    shares = [counts[level] for level in levels] + [others] * other + [0] * missing_is_level
    average = [count / sum(shares) for count in shares]
    rare = sorted(counts.keys() - set(levels))[:MOST_RARE]
    seldom = missing > 0 and not missing_is_level
    known = 1 - others / filled
    encoder = CategoryEncoder(name, levels, other, missing_is_level, "category", known, rare, average, seldom)
    return _Learnt(encoder, "")


def _by_target(
    name: str, texts: np.ndarray, counts: Counter[str], missing_is_level: bool, options: _Options
) -> _Learnt:
    many = f"{len(counts):,} levels"
    if options.targets is None:
        return _Learnt(f"{many}, and no targets to average", "")
    values, classes, seed = options.targets
    learnt = learn_statistics(name, texts, values, classes, seed, missing_is_level=missing_is_level)
    if learnt is None:
        return _Learnt(f"{many}, between which the target does not differ more than by chance", "")
    what = "the shares of the classes" if classes else "the average target"
    return _Learnt(learnt.encoder, f"{many}, encoded by {what} of each level, shrunk to that of all", learnt.fitted)
