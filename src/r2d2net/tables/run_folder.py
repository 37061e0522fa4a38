"""The folder of a run: what lies in it, how it begins and ends, and a fitted model back from it.

run.json             state ("fitting" or "finished"), settings, task, columns, data file, versions
model/               the estimator as safetensors and JSON; while it is fitted, its checkpoint
novelty.safetensors  what typical rows look like
background.safetensors  cells of each column, by which `r2d2net explain` knows the average row (see `background`)
effects.json         how the prediction changes with the first inputs
metrics.json, relevance.json, history.json, test_predictions.csv, figures/, report.html
manifest.json        digests of all that the commands read (see `r2d2net.manifest`)
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from r2d2net import folder_lock, manifest
from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_encoders import Encoded
from r2d2net.columns.input_columns import Columns
from r2d2net.errors import Argument, CheckpointError, ParameterError
from r2d2net.estimators.perceptron import LabelledPerceptron, Perceptron
from r2d2net.files import make_folder
from r2d2net.manifest import Parts, opened, replacing
from r2d2net.prediction import Prediction
from r2d2net.saved_json import Each, Whole, require_conforming
from r2d2net.tables import background, effects, novelty, row_checks
from r2d2net.tables.novelty import Novelty
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.settings import Settings
from r2d2net.tables.table_models import model_for

RUN, METRICS, RELEVANCE, HISTORY = "run.json", "metrics.json", "relevance.json", "history.json"
MODEL, TESTED, FIGURES, REPORT = "model", "test_predictions.csv", "figures", "report.html"
INPUTS = (effects.FILE, novelty.FILE, background.FILE, row_checks.FILE)  # what is learnt of the table's columns
VOUCHED = (METRICS, RELEVANCE, HISTORY, *INPUTS, f"{MODEL}/{manifest.FILE}")
PARTS = (manifest.FILE, *VOUCHED[:-1], MODEL, TESTED, FIGURES, REPORT, RUN)
SCHEMA = {"state": str, "settings": dict, "data": dict, "rows": Each(Whole()), "baseline": dict, "notes?": [str]}
ASIDE = ".replaced"  # an older run, until the one that replaces it is finished
FORMAT = 1
MOST_ROWS, MOST_OUTPUTS = 10_000, 1_000_000  # of a block: rows, and outputs of all draws


@dataclass(frozen=True)
class FittedRun:
    """A finished run."""

    folder: Path
    content: dict[str, Any]
    settings: Settings
    task: Task
    columns: Columns
    estimator: Perceptron
    novelty: Novelty

    def block_rows(self, draws: int | None = None) -> int:
        """Return how many rows to predict at a time in bounded memory.

        Args:
            draws: Networks drawn from the posterior; by default the run's number.
        """
        outputs = (self.settings.draws if draws is None else draws) * max(
            len(self.task.targets), len(self.task.classes)
        )
        return max(10, min(MOST_ROWS, MOST_OUTPUTS // outputs))

    def predict(self, x: Values, draws: int | None = None, seed: int | None = None) -> Prediction:
        """Predict encoded rows.

        Args:
            x: Encoded rows.
            draws: Networks drawn from the posterior; by default the run's number.
            seed: Seed of the draws; by default the run's.

        Returns:
            The predictive distributions.
        """
        return self.estimator.posterior_.predict(
            x, self.settings.draws if draws is None else draws, seed=self.settings.seed if seed is None else seed
        )

    def typicality(self, rows: Encoded) -> Values:
        """Return how typical encoded rows are (see `novelty`)."""
        return typicality_of(self.novelty, rows)


def typicality_of(novelty: Novelty, rows: Encoded) -> Values:
    """Return the typicality of encoded rows.

    It is 0 for a level never seen where training rows had no rare one, or a cell filled in where they had no gap.
    Where each level was seen twice or more, Good and Turing's estimate of the share of rows of new levels is 0, and so
    it is of the share of rows with a gap where there was none: the rate of false alarms stays what it is.

    Args:
        novelty: What typical rows look like.
        rows: Encoded rows.
    """
    return np.where(rows.strange, 0.0, novelty.typicality(rows.x))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of the folder, after a look at all of its parts.

    Args:
        path: The file.

    Raises:
        CheckpointError: The file is not there or damaged, or another part of the folder is.
    """
    with opened(path.parent) as parts:
        return _json_of(parts, path.name)


def _json_of(parts: Parts, name: str, schema: Any = None) -> dict[str, Any]:
    if not parts.has(name) and not (parts.folder / name).exists():
        fix = "give the folder of a run of `r2d2net fit`"
        raise CheckpointError("is not there", value=parts.folder / name, fix=fix)
    return parts.json(name, schema)


def read_run(folder: Path) -> dict[str, Any]:
    """Read run.json of a finished or unfinished run.

    Args:
        folder: The run folder.

    Raises:
        CheckpointError: There is no run, or it is damaged or of another version.
    """
    with _opened(folder) as parts:
        return _run_of(parts)


@contextmanager
def _opened(folder: Path) -> Iterator[Parts]:
    if folder.is_file():
        raise CheckpointError("is a file", value=folder, fix=f"give the folder of the run, such as {folder.parent}")
    _put_right(folder)
    with opened(folder) as parts:
        yield parts


def _run_of(parts: Parts) -> dict[str, Any]:
    content = _json_of(parts, RUN)
    if content.get("format") != FORMAT:
        problem = f"has format {content.get('format')!r:.40}, this version reads {FORMAT}"
        raise CheckpointError(problem, value=parts.folder / RUN)
    require_conforming(content, SCHEMA, parts.folder / RUN)
    return content


def load_run(folder: Path) -> FittedRun:
    """Load a finished run, ready to predict; all its parts are checked before any is used.

    Args:
        folder: The run folder.

    Raises:
        CheckpointError: There is no finished run, or it is damaged.
    """
    with _opened(folder) as parts, ExitStack() as stack:
        content = _run_of(parts)
        if content["state"] != "finished":
            fix = f"go on by `r2d2net fit --resume {folder}`"
            raise CheckpointError("holds an unfinished run", value=folder, fix=fix)
        model = stack.enter_context(opened(folder / MODEL))
        settings, task = Settings.back(content["settings"]), Task.of(content.get("task"))
        columns = Columns.of(content.get("columns", {}))
        inputs = sum(len(column.inputs) for column in columns.used)
        estimator: Perceptron = model_for(task).of_parts(model)
        novelty = Novelty.of_parts(parts, inputs)
    if isinstance(estimator, LabelledPerceptron) and tuple(estimator.labels_.tolist()) != task.classes:
        problem = f": its model has the classes {estimator.labels_.tolist()!s:.200}, its task others"
        raise CheckpointError(problem, value=folder)
    if estimator.n_features_in_ != inputs:
        problem = f": its model has {estimator.n_features_in_} inputs, its columns {inputs}"
        raise CheckpointError(problem, value=folder)
    outputs = estimator.posterior_.units.y.center.numel()
    if task.is_regression and outputs != len(task.targets):
        raise CheckpointError(f": its model has {outputs} targets, its task {len(task.targets)}", value=folder)
    return FittedRun(folder, content, settings, task, columns, estimator, novelty)


def require_new(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds something which a new run would replace.

    Args:
        folder: The run folder.
        overwrite: Whether a run in it may be replaced.

    Raises:
        ParameterError: The folder is a file, or not empty.
    """
    if folder.exists() and not folder.is_dir():
        raise ParameterError("is a file", argument="out", value=folder, fix="give a folder")
    _put_right(folder)
    if (folder / RUN).exists():
        if not overwrite:
            fix = ("give another folder, ", Argument("overwrite"), ", or ", Argument("resume", folder))
            raise ParameterError("holds a run", argument="out", value=folder, fix=fix)
    elif folder.is_dir() and not is_empty(folder):
        problem = "is not empty and holds no run"
        raise ParameterError(problem, argument="out", value=folder, fix="give another folder")


def begin(folder: Path) -> None:
    """Make the folder, and put parts of an older run aside."""
    make_folder(folder, "out")
    if not (folder / RUN).exists():
        return
    if (folder / ASIDE).exists() and read_json(folder / RUN).get("state") != "finished":
        _clear(folder)  # what was to replace the older run was not finished: that one is still worth more
    else:
        end(folder)
        _move(folder, folder / ASIDE)


def give_up(folder: Path) -> None:
    """Undo `begin` after a run that cannot be: an older run comes back, an empty folder goes."""
    _clear(folder)
    _put_right(folder)


def is_empty(folder: Path) -> bool:
    """Tell whether a folder holds nothing but its lock.

    Args:
        folder: The folder.
    """
    return all(path.name == folder_lock.NAME for path in folder.iterdir())


def write_run(folder: Path, content: dict[str, Any]) -> None:
    """Write run.json and the manifest, which vouches for all parts that are there; a finished run is one from here on.

    Args:
        folder: The run folder.
        content: What run.json is to hold.
    """
    is_finished = content["state"] == "finished"
    keep, documents = (VOUCHED, (REPORT, TESTED)) if is_finished else ((), ())
    with replacing(folder, keep=keep, documents=documents) as staging:
        staging.json(RUN, content)


def end(folder: Path) -> None:
    """Remove what a finished run no longer needs."""
    if (folder / ASIDE).exists():
        shutil.rmtree(folder / ASIDE)


def _put_right(folder: Path) -> None:
    """Bring an older run back where putting it aside was interrupted, or what was to replace it never began."""
    aside = folder / ASIDE
    if not aside.exists():
        return
    try:
        with folder_lock.writing(folder):
            if aside.exists() and not ((folder / RUN).exists() and (aside / RUN).exists()):
                _move(aside, folder)
                shutil.rmtree(aside)
    except folder_lock.FolderInUseError:  # who puts it aside is at work
        return


def _clear(folder: Path) -> None:
    for part in PARTS:
        _remove(folder / part)


def _move(source: Path, target: Path) -> None:
    """Move all parts, run.json last: a run is where that is."""
    target.mkdir(exist_ok=True)
    for part in PARTS:
        if (source / part).exists():
            _remove(target / part)
            (source / part).replace(target / part)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
