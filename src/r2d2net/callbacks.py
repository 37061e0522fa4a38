"""What `fit` calls while a run goes on: functions of the history, loggers, or any object with these methods.

    rn.fit(model, data, callbacks=[function, rn.callbacks.CSVLogger("history.csv")])

A plain function is called after every epoch with the history. Callbacks see copies: they cannot change the run, whose
numbers stay a function of model, data, settings and seed. An exception in one of them ends the run, which `fit` can
resume where it has a folder.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2d2net.errors import ParameterError, Value, require_whole
from r2d2net.inference.base import Info

if TYPE_CHECKING:
    from r2d2net.posterior import Posterior

__all__ = ["CSVLogger", "Callback", "TensorBoardLogger"]

History = list[dict[str, float]]
FIX = "give functions of the history, or objects of r2d2net.callbacks.Callback"


class Callback:
    """What is called as a run goes on; override what you need."""

    def on_step(self, step: int, info: Info) -> None:
        """Look at a step.

        Args:
            step: Its number in the run: 1, 2, ...
            info: Its report. ``info.nll`` is on the device: reading it there makes the host wait.
        """

    def on_epoch(self, history: History) -> None:
        """Look at the history after an epoch.

        Args:
            history: One dict for each epoch so far, as in ``posterior.history``.
        """

    def on_end(self, posterior: Posterior[Any]) -> None:
        """Look at the posterior at the end of the run.

        Args:
            posterior: What `fit` will return.
        """


class _Function(Callback):
    """A function of the history."""

    def __init__(self, function: Callable[[History], Any]) -> None:
        self.function = function

    def on_epoch(self, history: History) -> None:
        self.function(history)


class Callbacks:
    """All callbacks of a run.

    Args:
        given: What the user gave.

    Raises:
        ParameterError: If one of them is no callback.
    """

    def __init__(self, given: Sequence[Callback | Callable[[History], Any]] = ()) -> None:
        if isinstance(given, Callback) or callable(given) or not isinstance(given, (list, tuple)):
            raise ParameterError("is no list", argument="callbacks", value=given, fix="give [callback]")
        self.all: list[Callback] = []
        for item in given:
            if isinstance(item, type) or not (isinstance(item, Callback) or callable(item)):
                problem = ("holds ", "the class " if isinstance(item, type) else "", Value(item))
                raise ParameterError(problem, argument="callbacks", fix=FIX)
            self.all.append(item if isinstance(item, Callback) else _Function(item))

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.all)

    def step(self, step: int, info: Info) -> None:
        """Report a step."""
        for callback in self.all:
            callback.on_step(step, info)

    def epoch(self, history: Sequence[dict[str, float]]) -> None:
        """Report an epoch."""
        for callback in self.all:
            callback.on_epoch([dict(entry) for entry in history])

    def end(self, posterior: Posterior[Any]) -> None:
        """Report the end."""
        for callback in self.all:
            callback.on_end(posterior)


class CSVLogger(Callback):
    """Writes the history as a CSV file, a line for each epoch as it ends; what an epoch does not have is empty.

    Args:
        path: The file; one that is there is replaced.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._columns: list[str] = []
        self._rows = 0

    def on_epoch(self, history: History) -> None:
        columns = list(dict.fromkeys(name for entry in history for name in entry))
        is_more = columns == self._columns and self._rows == len(history) - 1 and self._rows > 0
        try:
            with self.path.open("a" if is_more else "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                if not is_more:
                    writer.writeheader()
                writer.writerows(history[-1:] if is_more else history)
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise ParameterError(problem, argument="path", value=self.path, fix="name another file") from error
        self._columns, self._rows = columns, len(history)


class TensorBoardLogger(Callback):
    """Writes the history for TensorBoard, and the loss of single steps if asked for.

    Args:
        folder: Folder of the event files.
        every: Steps between two losses of single steps, for which the host waits for the device; None for none.

    Raises:
        ParameterError: If tensorboard is not installed.
    """

    def __init__(self, folder: str | Path, *, every: int | None = None) -> None:
        if every is not None:
            require_whole("every", every)
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            fix = "pip install 'r2d2net[tensorboard]'"
            raise ParameterError("needs tensorboard", value=type(self), fix=fix) from error
        self.every = every
        self._writer = SummaryWriter(str(folder))
        self._written = 0

    def on_step(self, step: int, info: Info) -> None:
        if self.every is not None and step % self.every == 0:
            self._writer.add_scalar("step/nll", float(info.nll), step)
            self._writer.add_scalar("step/learning_rate", info.learning_rate, step)

    def on_epoch(self, history: History) -> None:
        for entry in history[self._written :]:  # all, where a run was resumed
            for name, value in entry.items():
                if name != "epoch":
                    self._writer.add_scalar(f"epoch/{name}", value, int(entry["epoch"]))
        self._written = len(history)
        self._writer.flush()

    def on_end(self, posterior: Posterior[Any]) -> None:
        self._writer.close()
