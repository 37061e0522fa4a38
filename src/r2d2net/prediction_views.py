"""Predictions in notebooks and scripts: rows of them, as a table, as a plot.

prediction[3:10]                   the prediction of some rows
prediction.to_pandas(level=0.9)    a row for each row: mean, sd, low, high; or class, probabilities, entropy
prediction.plot()                  intervals in the order of the means, or probabilities of the classes
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value
from r2d2net.notebook_tables import MOST_ROWS, axes_for, html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_DRAWN = 200  # rows of a plot


class PredictionViews(ABC):
    """What every prediction offers besides its numbers.

    Attributes:
        samples: Prediction at each draw of the weights, (draws, rows) or (draws, rows, outputs).
        labels: Labels of the classes; None where they are numbers.
    """

    samples: Tensor
    labels: ClassVar[tuple[str, ...] | None] = None  # an object, which is frozen, may have its own

    def with_labels(self, labels: Sequence[object]) -> Self:
        """Let tables and plots show labels in place of the numbers of classes.

        Args:
            labels: A label for each class.

        Returns:
            The same prediction.
        """
        named = copy.copy(self)
        object.__setattr__(named, "labels", tuple(map(str, labels)))
        return named

    @abstractmethod
    def columns(self, level: float = 0.9) -> dict[str, Tensor]:
        """Compute the columns of the prediction as a table.

        Args:
            level: Level of the intervals.

        Returns:
            For each name a number of each row, (rows,), or of each row and output.
        """

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.samples.shape[1]

    def __getitem__(self, rows: int | slice | Sequence[int] | np.ndarray | Tensor) -> Self:
        """Select rows.

        Args:
            rows: A number, which gives a prediction of one row, a slice, numbers, or a mask.

        Returns:
            The prediction of these rows, with the same draws.

        Raises:
            IndexError: If there is no such row.
            DataError: If ``rows`` are no numbers and no mask.
        """
        chosen, places = copy.copy(self), self._places(rows)
        for name, value in vars(self).items():
            if isinstance(value, PredictionViews):  # that of the logarithm
                object.__setattr__(chosen, name, value[places])
            elif isinstance(value, Tensor):
                dimension = 1 - (self.samples.dim() - value.dim())  # that of the rows, where it has one
                if dimension >= 0 and value.shape[dimension] == len(self):
                    object.__setattr__(chosen, name, value.index_select(dimension, places))  # frozen
        return chosen

    def _places(self, rows: Any) -> Tensor:
        if isinstance(rows, slice):
            places = torch.tensor(range(len(self))[rows], dtype=torch.long)
        else:
            try:
                places = torch.as_tensor(rows)
            except (TypeError, ValueError, RuntimeError) as error:
                raise DataError(f"cannot be read ({error})", argument="rows", fix="use numbers or a mask") from error
            if places.dtype == torch.bool and places.shape == (len(self),):
                places = places.nonzero()[:, 0]
            elif places.dtype == torch.bool or places.is_floating_point() or places.is_complex() or places.dim() > 1:
                problem = (f"has type {places.dtype} and shape ", Value(tuple(places.shape)))
                raise DataError(problem, argument="rows", fix=f"use numbers, or a mask of {len(self)} rows")
            places = places.reshape(-1).long()
        wrong = places[(places < -len(self)) | (places >= len(self))]
        if len(wrong):
            raise IndexError(f"row {int(wrong[0])} of {len(self)}")
        return (places % max(1, len(self))).to(self.samples.device)

    def to_pandas(self, level: float = 0.9) -> pd.DataFrame:
        """Write the prediction as a table.

        Args:
            level: Level of the intervals.

        Returns:
            A row for each row: mean, standard deviation and interval, or class, probabilities and entropy. Of several
            outputs, names have the number of the output in brackets.
        """
        import pandas as pd

        columns: dict[str, np.ndarray] = {}
        for name, values in self.columns(level).items():
            numbers = values.cpu().numpy()
            flat = numbers.reshape(len(numbers), -1)
            several = numbers.ndim > 1
            columns |= {f"{name}[{i}]" if several else name: flat[:, i] for i in range(flat.shape[1])}
        if self.labels is not None and "class" in columns:
            columns["class"] = np.array(self.labels, dtype=object)[columns["class"]]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        table = self[:MOST_ROWS].to_pandas()
        shown = f"first {len(table)} of {len(self):,} rows" if len(self) > len(table) else f"{len(self):,} rows"
        caption = f"{type(self).__name__}: {shown}, {len(self.samples):,} draws, 90% intervals"
        rows = ([place, *cells] for place, cells in enumerate(table.astype(object).to_numpy().tolist()))
        return html_table(caption, ["row", *table.columns], rows)

    def plot(self, level: float = 0.9, *, ax: Axes | None = None) -> Axes:
        """Draw the prediction: intervals in the order of the means, or the probabilities of the classes.

        Args:
            level: Level of the intervals.
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes. Of more than 200 rows, 200 are drawn, at equal steps.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        axes = axes_for(ax)
        steps = np.linspace(0, len(self) - 1, min(len(self), MOST_DRAWN)).round().astype(np.int64)
        columns = {name: part.double().cpu().numpy() for name, part in self[steps].columns(level).items()}
        if "mean" not in columns:
            names = [name for name in columns if name.startswith("p(")]
            bottom = np.zeros(len(steps))
            for name in names:
                axes.bar(steps, columns[name], bottom=bottom, width=1.0, label=name)
                bottom = bottom + columns[name]
            axes.set(xlabel="row", ylabel="probability", ylim=(0, 1))
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
            return axes
        parts = {name: part.reshape(len(steps), -1) for name, part in columns.items()}
        at = np.arange(len(steps))
        for output in range(parts["mean"].shape[1]):
            order = np.argsort(parts["mean"][:, output], kind="stable")
            mean = parts["mean"][order, output]
            label = f"output {output}" if parts["mean"].shape[1] > 1 else f"mean and {level:.0%} interval"
            (line,) = axes.plot(at, mean, linewidth=1.5, label=label)
            if "low" in parts:
                ends = (parts[name][order, output] for name in ("low", "high"))
                axes.fill_between(at, *ends, alpha=0.2, linewidth=0, color=line.get_color())
        axes.set(xlabel="rows, in the order of the means", ylabel="prediction")
        axes.legend(frameon=False, fontsize="small")
        return axes
