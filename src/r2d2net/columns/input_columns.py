"""What the columns of a table are and how a row becomes inputs of a network, learnt from training rows, as plain JSON.

    number    (x - mean) / sd in float64; missing cells become the median, infinite ones an end of the training range;
              where many cells are missing, a second input says so
    date      the same, of days since 1970, and season, weekday and time of day where there are such (`date_inputs`)
    category  one 0/1 input a level; rare levels share the input "other" and missing cells have one, where they are
              common. Otherwise they, and levels never seen where there is no "other", are the average over levels.
    category of many levels   the average target of each level, shrunk (`target_statistics`)

What is many, rare and common, `column_detection` says. Columns that are empty, constant, row numbers or identifiers are
left out, and it is said why.

A row with a level never seen, a cell filled in where training rows had no gap, or one that cannot be read where they
had none such, is unlike them whatever its other cells are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.columns.column_encoders import CategoryEncoder, Counts, Encoded, NumberEncoder
from r2d2net.columns.column_names import FIX, are_data
from r2d2net.columns.date_formats import date_format_in_words
from r2d2net.columns.date_inputs import DateEncoder
from r2d2net.columns.phrases import counted, quoted_names
from r2d2net.columns.raw_columns import READABLE
from r2d2net.columns.target_statistics import TargetEncoder
from r2d2net.errors import CheckpointError, DataError, ParameterError, Shown
from r2d2net.saved_json import Each, fault_of, schema_of

if TYPE_CHECKING:
    import pandas as pd

ColumnEncoder = NumberEncoder | CategoryEncoder | TargetEncoder
LevelEncoder = CategoryEncoder | TargetEncoder

WHOLE_COLUMN = 10  # cells from which a column that cannot be read is a mistake and not a gap
CHANCE = 1e-3  # that of so many rows like those of training none has a level that is not rare


@dataclass(frozen=True)
class Columns:
    """The inputs of a network, by column.

    Attributes:
        used: Columns that are inputs.
        left_out: Other columns of the training table, and why they are no inputs.
        read_as: How columns were read that could have been read otherwise.
    """

    used: tuple[ColumnEncoder, ...]
    left_out: dict[str, str]
    read_as: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.used]

    @property
    def groups(self) -> list[list[int]]:
        """The inputs of the network that belong to each column."""
        ends = np.cumsum([0, *(len(column.inputs) for column in self.used)]).tolist()
        return [list(range(start, end)) for start, end in pairwise(ends)]

    def match(self, names: list[str], where: str, *targets: str) -> list[str]:
        """Check that a table has the columns of the model.

        Args:
            names: The columns of the table.
            where: The name of its file, for errors.
            *targets: The targets, which are no inputs.

        Returns:
            Names of columns that the model has never seen.

        Raises:
            DataError: Columns are lacking.
        """
        there = set(names)
        lacking = [name for name in self.names if name not in there]
        if lacking:
            alike = {name.lower(): name for name in names}
            near = [alike[name.lower()] for name in lacking if name.lower() in alike]
            columns, them = ("column", "it") if len(lacking) == 1 else ("columns", "them")
            hint, fix = (f"; it has {quoted_names(near)}", "rename") if near else ("", f"add {them}")
            if are_data(names):
                hint, fix = f", and its first line looks like data ({quoted_names(names, 3)})", FIX
            raise DataError(f"lacks the {columns} {quoted_names(lacking, 20)}{hint}", value=Shown(where), fix=fix)
        known = {*self.names, *self.left_out, *targets}
        return [name for name in names if name not in known]

    def encode(self, table: pd.DataFrame, counts: Counts | None = None) -> Encoded:
        """Encode rows as inputs of the network.

        Args:
            table: The rows.
            counts: Counts of missing, unreadable and unseen cells, to which those of the table are added.

        Returns:
            The inputs, and which rows have cells that training rows did not have.
        """
        kept: Counts = Counter() if counts is None else counts
        return Encoded.beside([column.encode(table[column.name], kept) for column in self.used])

    def require_cells(self, counts: Counts, rows: int, where: str) -> None:
        """Refuse a file with a column that is written otherwise than in training, or is empty and had no gaps there.

        Written otherwise is what would not have been read as numbers or dates in training: less than nine tenths of
        the filled cells can be, or less than half where training rows had unreadable cells, too. Of a category it is
        cells without one of its levels, unless nearly all training rows were of rare levels themselves.

        Args:
            counts: The counts of all rows (see `encode`).
            rows: The number of rows.
            where: The name of the file.

        Raises:
            DataError: There is such a column.
        """
        for column in self.used if rows >= WHOLE_COLUMN else ():
            missing, unreadable = counts[column.name, "missing"], counts[column.name, "unreadable"]
            filled = rows - missing
            if missing + unreadable == rows and not column.gaps:
                what = "readable" if filled else "filled"
                problem = (":", f" column {column.name!r} has no {what} cell, training rows had no gaps there")
                fix = f"give its values, written as they were{_how(column)}"
                raise DataError(problem, value=Shown(where), fix=fix)
            least = READABLE
            if isinstance(column, NumberEncoder) and column.unreadable:
                least = 0.5  # more than a tenth may be chance
            if filled >= WHOLE_COLUMN and filled - unreadable < least * filled:
                unread = f" {unreadable:,} of {filled:,} filled cells cannot be read"
                fix = f"write them as the training rows were{_how(column)}, or leave them empty"
                raise DataError((":", f" column {column.name!r}:", unread), value=Shown(where), fix=fix)
            if isinstance(column, LevelEncoder):
                _require_levels(column, counts, where)

    def plain(self) -> dict[str, Any]:
        """Return the columns as plain values for JSON."""
        used = [asdict(column) for column in self.used]
        return {"used": used, "left_out": self.left_out, "read_as": self.read_as}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Columns:
        """Restore columns from the values of `plain`.

        Args:
            plain: What a file kept.

        Raises:
            CheckpointError: The values are no columns.
        """
        try:
            fault = fault_of(plain, SCHEMA) or next(filter(None, map(_fault, plain["used"])), None)
            if fault is None:
                used = [_encoder_of(column)(**column) for column in plain["used"]]
                fault = next((f"{encoder.name!r} has {why}" for encoder in used if (why := _misfit(encoder))), None)
                names = [encoder.name for encoder in used]
                if len(set(names)) < len(names):
                    fault = "two have one name"
        except (KeyError, TypeError, ValueError) as error:
            fault = f"{type(error).__name__} {error}"
        if fault is not None:
            raise CheckpointError(f"the columns of the run cannot be read, {fault}", fix="fit again")
        return cls(tuple(used), dict(plain["left_out"]), dict(plain["read_as"]))


SCHEMA = {"used": [{"name": str, "kind": str}], "left_out": Each(str), "read_as": Each(str)}
KINDS = ("number", "date", "category", "category by target")


def _fault(column: dict[str, Any]) -> str | None:
    """Say what is wrong with the values of an encoder that a file kept."""
    if column["kind"] not in KINDS:
        return f"'kind' is {column['kind']!r:.60}"
    return fault_of(column, schema_of(_encoder_of(column)))


def _misfit(encoder: ColumnEncoder) -> str | None:
    """Say which values of an encoder do not go together."""
    if isinstance(encoder, CategoryEncoder):
        fits = encoder.inputs and len(encoder.average) in (0, len(encoder.inputs))
        return None if fits else "averages of other levels"
    if isinstance(encoder, TargetEncoder):
        outputs = len(encoder.overall)
        lists = [*encoder.means, encoder.centers, encoder.scales, encoder.missing_means or encoder.overall]
        alike = outputs > 0 and all(len(values) == outputs for values in lists)
        fits = alike and len(encoder.means) == len(encoder.levels) and len(encoder.classes) in (0, outputs)
        return None if fits and min(encoder.scales) > 0 else "averages of other levels"
    if encoder.sd <= 0 or encoder.low > encoder.high:
        return "no standard deviation or range"
    if not (_is_date_format(encoder.form) if encoder.kind == "date" else len(encoder.form) != 1):
        return f"the format {encoder.form!r:.60}"
    if isinstance(encoder, DateEncoder) and not encoder.has_averages:
        return "averages of other parts"
    return None


def _is_date_format(form: str) -> bool:
    try:
        datetime.strptime("", form)
    except ValueError as error:  # that of a good format says that the empty text is not written in it
        return "does not match format" in str(error)
    return True


def _encoder_of(column: dict[str, Any]) -> type[ColumnEncoder]:
    """Return the class of an encoder that a file kept; dates of older runs have a trend alone."""
    if column["kind"] == "date" and "parts" in column:
        return DateEncoder
    by_kind: dict[str, type[ColumnEncoder]] = {"category": CategoryEncoder, "category by target": TargetEncoder}
    return by_kind.get(column["kind"], NumberEncoder)


def _require_levels(column: LevelEncoder, counts: Counts, where: str) -> None:
    """Refuse cells of which not one is of a level that training rows had, be it a rare one."""
    strange = sum(counts[column.name, kind] for kind in ("rare", "average", "unseen"))
    if counts[column.name, "known"] or strange < WHOLE_COLUMN or (1 - column.known) ** strange > CHANCE:
        return
    unknown = f" none of {strange:,} filled cells is of a level that training rows had"
    fix = f"write them as there ({quoted_names(column.levels)}), or fit again with rows like these"
    raise DataError((":", f" column {column.name!r}:", unknown), value=Shown(where), fix=fix)


def chosen_columns(given: Sequence[str], names: list[str], option: str) -> list[str]:
    """Return the columns that an option names; a name with commas is a name first.

    Args:
        given: Texts of one name each, or of several with commas between them.
        names: The columns of the table.
        option: The option, for errors.

    Raises:
        ParameterError: A name is no column.

    >>> chosen_columns(["a,b", "c,d"], ["a,b", "c", "d"], "ignore")
    ['a,b', 'c', 'd']
    """
    parts = [[text] if text in names else [part.strip() for part in text.split(",")] for text in given]
    chosen = [part for part in chain.from_iterable(parts) if part]
    unknown = [name for name in chosen if name not in names]
    if unknown:
        fix = f"the table has {quoted_names(names)}"
        raise ParameterError(f"names {quoted_names(unknown)}", argument=option, fix=fix)
    return chosen


def _how(column: ColumnEncoder) -> str:
    """Say how numbers or dates were written in training."""
    if isinstance(column, LevelEncoder):
        return ""
    if column.kind == "date":
        return f" ({date_format_in_words(column.form) if column.form else 'year-month-day'})"
    unit = f" and {column.form[2:]}" if column.form[2:] else ""
    return f" (with decimal {'commas' if column.form.startswith(',') else 'points'}{unit})"


def ignored(extra: list[str]) -> list[str]:
    """Return a note on columns that the model has never seen."""
    return [f"columns that the model does not know, ignored: {quoted_names(extra)}"] if extra else []


def notes_of(counts: Counts) -> list[str]:
    """Return notes on cells that were not as in training, a line for each kind.

    Args:
        counts: How many cells of each column were of each kind.
    """
    did = {
        "missing": "missing, filled in (the median of numbers, the average over levels)",
        "infinite": "infinite, taken as the least or the largest of training",
        "unreadable": "unreadable, taken as missing",
        "unseen": "of levels unknown to the model",
        "average": "of levels that are rare or unknown, taken as the average over levels",
        "rare": 'of levels that are rare or unknown, taken as "other"',
    }
    lines = []
    for what, text in did.items():
        cells = {name: count for (name, kind), count in counts.items() if kind == what and count}
        if cells:
            each = [f"{name} {count:,}" for name, count in sorted(cells.items(), key=lambda item: -item[1])]
            more = f" and {counted(len(each) - 6, 'more column')}" if len(each) > 6 else ""
            lines.append(f"{counted(sum(cells.values()), 'cell')} {text}: {', '.join(each[:6])}{more}")
    return lines
