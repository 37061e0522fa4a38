"""Tables of pandas as inputs of an estimator, by the reader and encoders of the command line (`r2d2net.columns`).

    numbers without gaps    as they are; a cell that is missing in rows to predict is the median of its column
    any other table         column by column: numbers, dates and categories, with gaps, as `r2d2net fit` reads a file

What is said of a column's type is believed: one of dtype category is a category even if written in numbers, and one of
numbers is used even if it counts the rows.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from r2d2net.columns.cell_parsing import LARGEST, Values
from r2d2net.columns.column_detection import Targets, learn_inputs
from r2d2net.columns.column_encoders import Counts
from r2d2net.columns.format_rules import detect_format_rules
from r2d2net.columns.input_columns import Columns, notes_of
from r2d2net.columns.phrases import quoted_names
from r2d2net.columns.raw_columns import RawTable
from r2d2net.errors import CheckpointError, ColumnWarning, DataError, Value

if TYPE_CHECKING:
    import pandas as pd

UNLIKE = ("unreadable", "unseen")  # cells that training rows did not have, of those that encoders count
NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean")  # of cells that are Python objects


@dataclass(frozen=True)
class TableInputs:
    """How the columns of a table become inputs of a network, learnt from training rows.

    Attributes:
        names: The columns of the table.
        columns: What they are and how they are encoded; None where they are numbers that are taken as they are.
        medians: Of such numbers, by which missing cells of rows to predict are filled in.
        numeric: Names of the columns that held numbers, not texts; none of older runs.
    """

    names: list[str]
    columns: Columns | None = None
    medians: list[float] = field(default_factory=list)
    numeric: list[str] = field(default_factory=list)

    def encode(self, X: Any) -> Any:
        """Encode rows to predict; a table of numbers stays one.

        Args:
            X: A table with the columns of the training rows.

        Returns:
            The inputs of the network, (rows, inputs), or a table of numbers without gaps.

        Raises:
            DataError: If ``X`` is no such table, or a column is written otherwise than in the training rows.

        Warns:
            ColumnWarning: In one line, of texts where training rows had numbers, and of cells that cannot be read or
                are of unknown levels.
        """
        if self.columns is None:
            self._require_numbers(X)
            return self._filled(X)
        if not is_table(X):
            problem = ("is a ", Value(type(X)), ", and the training rows were a table of more than numbers")
            fix = f"give a pandas DataFrame with the columns {quoted_names(self.columns.names)}"
            raise DataError(problem, argument="X", fix=fix)
        if len(X) == 0:
            raise DataError("has 0 rows", argument="X", fix="give at least one")
        table = _with_text_names(X)
        _require_finite(table)
        self.columns.match([str(name) for name in table.columns], "X")
        counts: Counts = Counter()
        encoded = self.columns.encode(table, counts)
        _require_none_infinite(counts)
        self.columns.require_cells(counts, len(table), "X")
        self._warn(table, counts)
        return encoded.x

    def _require_numbers(self, X: Any) -> None:
        """Refuse dates in a table of numbers, and tell of texts; all else is left to the checks of arrays."""
        if not (is_table(X) and [str(name) for name in X.columns] == self.names):
            return
        for place, name in enumerate(self.names):
            if X.iloc[:, place].dtype.kind in "mM":
                problem = ("holds dates in the column ", Value(name), ", and the training rows had numbers there")
                raise DataError(problem, argument="X", fix="give numbers")
        self._warn(X, Counter())

    def _warn(self, table: pd.DataFrame, counts: Counts) -> None:
        """Tell in one line of texts among numbers, and of cells that are not as in the training rows."""
        numeric = set(self.numeric)
        texts = [
            str(name)
            for place, name in enumerate(table.columns)
            if str(name) in numeric and _holds_texts(table.iloc[:, place])
        ]
        notes = [f"texts where the training rows had numbers, read as numbers: {quoted_names(texts)}"] if texts else []
        notes += notes_of(Counter({key: count for key, count in counts.items() if key[1] in UNLIKE}))
        if notes:
            warnings.warn(f"X: {'; '.join(notes)}", ColumnWarning, stacklevel=7)  # where `predict` is called

    def _filled(self, X: Any) -> Any:
        """Fill in the missing cells of a table of numbers; anything else is left to the checks of arrays."""
        if not (is_table(X) and X.shape[1] == len(self.medians) and bool(X.isna().to_numpy().any())):
            return X
        if not all(_is_of_numbers(X.iloc[:, place]) for place in range(X.shape[1])):
            return X
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
        filled = np.where(np.isnan(values), np.array(self.medians), values)
        return type(X)(filled, columns=X.columns, index=X.index)

    def groups(self) -> tuple[list[int], list[list[int]]] | None:
        """Return the places of the columns that are inputs, and which inputs are of each; None where each is one."""
        if self.columns is None:
            return None
        return [self.names.index(name) for name in self.columns.names], self.columns.groups

    def places(self) -> dict[str, list[int]]:
        """Return the inputs that each column became, in the order of the columns; none of one that was left out."""
        if self.columns is None:
            return {name: [place] for place, name in enumerate(self.names)}
        inputs = dict(zip(self.columns.names, self.columns.groups, strict=True))
        return {name: inputs.get(name, []) for name in self.names}

    def plain(self) -> dict[str, Any]:
        """Return what was learnt as plain values for JSON."""
        columns = None if self.columns is None else self.columns.plain()
        return {"names": self.names, "columns": columns, "medians": self.medians, "numeric": self.numeric}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> TableInputs:
        """Restore what `plain` returned.

        Args:
            plain: What a file kept.

        Raises:
            CheckpointError: The values are no inputs.
        """
        try:
            columns = None if plain["columns"] is None else Columns.of(plain["columns"])
            return cls(list(plain["names"]), columns, list(plain["medians"]), list(plain.get("numeric", [])))
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the inputs of the estimator cannot be read, {error}", fix="fit again") from error


def is_table(X: Any) -> bool:
    """Tell whether rows are a DataFrame of pandas, without importing it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def needs_encoding(X: Any) -> bool:
    """Tell whether training rows are a table with gaps or other columns than numbers.

    Args:
        X: The rows in any form.
    """
    return is_table(X) and not all(_is_complete(X.iloc[:, place]) for place in range(X.shape[1]))


def require_distinct_names(X: pd.DataFrame) -> None:
    """Refuse a table of which two columns have one name.

    Args:
        X: The table.

    Raises:
        DataError: There are such columns.
    """
    counts = Counter(str(name) for name in X.columns)
    name, count = counts.most_common(1)[0] if counts else ("", 0)
    if count > 1:
        raise DataError((f"has {count} columns ", Value(name)), argument="X", fix="rename all but one")


def learn_table(X: pd.DataFrame, targets: Targets) -> tuple[TableInputs, Values]:
    """Learn from training rows what the columns of a table are, and encode these rows.

    Args:
        X: The table.
        targets: Targets of the rows, for averages by level.

    Returns:
        How the columns are encoded, and the inputs of the network, (rows, inputs).

    Raises:
        DataError: No column can be used.
    """
    table = _with_text_names(X)
    _require_finite(table)
    kinds = dict(zip(table.columns, X.dtypes, strict=True))
    categorical = [name for name, kind in kinds.items() if kind == "category"]
    keep = [name for name in kinds if _is_of_numbers(table[name])]
    raw = RawTable(table)
    rules = detect_format_rules(raw, skip=categorical)
    columns, encoded, counts = learn_inputs(raw, None, categorical, keep=keep, rules=rules, targets=targets)
    _require_none_infinite(counts)
    return TableInputs([str(name) for name in table.columns], columns, numeric=keep), encoded.x


def plain_table(X: pd.DataFrame, values: Values) -> TableInputs:
    """Remember the medians of a table of numbers without gaps.

    Args:
        X: The table.
        values: Its numbers.
    """
    names = [str(name) for name in X.columns]
    texts = {str(name) for place, name in enumerate(X.columns) if _holds_texts(X.iloc[:, place])}
    numeric = [name for name in names if name not in texts]
    return TableInputs(names, None, np.median(values, axis=0).tolist(), numeric)


def _is_complete(column: pd.Series) -> bool:
    """Whether a column holds numbers or truth values and nothing else, as arrays do."""
    import pandas as pd

    if pd.api.types.is_object_dtype(column):
        return pd.api.types.infer_dtype(column, skipna=False) in NUMBERS and not bool(column.isna().any())
    return bool(pd.api.types.is_numeric_dtype(column)) and not bool(column.isna().any())


def _holds_texts(column: pd.Series) -> bool:
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return False
    return any(isinstance(cell, str) for cell in column)


def _is_of_numbers(column: pd.Series) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column)) and not pd.api.types.is_bool_dtype(column)


def _require_none_infinite(counts: Counts) -> None:
    """Refuse infinite numbers among objects and texts, by what encoders have counted."""
    name = next((name for (name, what), count in counts.items() if what == "infinite" and count), None)
    if name is not None:
        problem = (f"holds a number that is infinite or beyond {LARGEST:g} in the column ", Value(name))
        raise DataError(problem, argument="X", fix="replace it, or leave the cell missing")


def _require_finite(table: pd.DataFrame) -> None:
    """Refuse infinite numbers, which are neither numbers nor missing cells."""
    for name in table.columns:
        if table[name].dtype.kind == "f" and bool(np.isinf(table[name].to_numpy()).any()):
            problem = ("holds an infinite number in the column ", Value(name))
            raise DataError(problem, argument="X", fix="replace it, or leave the cell missing")


def _with_text_names(X: pd.DataFrame) -> pd.DataFrame:
    """Return the table with texts as names, which encoders look columns up by, and categories as their cells."""
    table = X.copy(deep=False)
    table.columns = [str(name) for name in X.columns]
    for name in table.columns:
        if table[name].dtype == "category":
            table[name] = table[name].astype(object)
    return table
