"""`torchrun -m r2d2net fit`: rank 0 runs the command and writes the one run folder, the others share its steps.

A network that is fitted by steps has them split (`run.train.train_on_ranks`). All else, and models that are stacked,
is rank 0's own work: the others end as soon as the network is fitted.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

from r2d2net.errors import FitWarning
from r2d2net.ranks.opening import is_world
from r2d2net.run.threads import one_thread
from r2d2net.tables.fitting import estimator_for
from r2d2net.tables.run_folder import read_run
from r2d2net.tables.settings import Settings
from r2d2net.tables.table_models import fit_model
from r2d2net.tables.training_table import read_training_table

STACKED = "models of a stack are fitted by one process: name an --algorithm, svgi say, to share its steps among all"


def is_helper() -> bool:
    """Return whether this process is one of several, and not the first."""
    return is_world() and os.environ.get("RANK", "0") != "0"


def help_to_fit(data: Path, settings: Settings) -> None:
    """Take part in the fit of rank 0, and keep nothing.

    Args:
        data: CSV or Parquet file, which this process must see too.
        settings: Those of rank 0.
    """
    if settings.stacked:
        return
    table = read_training_table(data, settings)
    with tempfile.TemporaryDirectory(prefix="r2d2net-") as place, one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        fit_model(estimator_for(table, settings, verbose=False), table, Path(place))


def help_to_resume(folder: Path, data: Path | None) -> None:
    """Take part in a fit that goes on.

    Args:
        folder: The run folder, which this process must see too.
        data: The file that the run began with, if it lies elsewhere now.
    """
    content = read_run(folder)
    if content["state"] != "finished":
        help_to_fit(
            Path(str(content["data"].get("path"))) if data is None else data, Settings.back(content["settings"])
        )
