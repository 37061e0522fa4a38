"""Table "uci": error and log density on the UCI regressions, one hidden layer of 50 ReLU units, the published splits.

The tables are those of the catalogue that are there, and any other folder or zip file of the same layout beside them:
data.txt, index_features.txt, index_target.txt, index_train_K.txt and index_test_K.txt. A table with fewer splits than
a scale has cells for the splits that it has. A tenth of the training rows is held out to choose step sizes and starts.
Every method has two runs, of which the held-out rows choose; for the adaptive prior these are its two forms, and
ensembles have their members instead. Chains (r2d2-mclmc) and the default of `r2d2net fit` have nothing to choose and
are fitted once, to all training rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net import data, metrics, nets
from r2d2net.data import Table
from r2d2net.data.formats.members import last_part, member_names
from r2d2net.data.formats.uci_table import SPLITS
from r2d2net.data.loading import VARIABLE
from r2d2net.errors import DataError
from r2d2net.likelihoods import Gaussian
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.table_rows import method_of, prior_of
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit
from r2d2net.run.stacking import fit_stacked

KNOWN = {
    "bostonHousing": "boston",
    "energy": "energy",
    "kin8nm": "kin8nm",
    "naval-propulsion-plant": "naval",
    "wine-quality-red": "wine",
    "yacht": "yacht",
}
FOLDERS = ("uci_regression", "UCI_Datasets")
ROWS = ("freq", "mcd", "de", "gauss-svi", "gauss-svgi", "hs-svi", "hs-svgi", "r2d2-svgi", "adaptive-svgi")
WITHOUT_CHOICE = ("r2d2-mclmc", "default")
HIDDEN, BATCH, VALIDATION, DRAWS = 50, 64, 0.1, 100

SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"splits": 1, "steps": 100, "factors": [1.0], "members": 2, "most": 1},
    "machine": {"splits": 5, "steps": 4_000, "factors": [1.0, 0.3], "members": 3, "most": None},
    "paper": {"splits": 20, "steps": 20_000, "factors": [1.0, 0.3, 3.0], "members": 5, "most": None},
}


def tables() -> dict[str, Path]:
    """Find all tables of the UCI layout in the folder that R2D2NET_DATA names.

    Returns:
        Folders or zip files by the names of the tables, in the order of these names.

    Raises:
        DataError: There are none.
    """
    root = os.environ.get(VARIABLE)
    paths = {}
    for folder in [Path(root).expanduser() / name for name in FOLDERS] if root else []:
        for path in sorted(folder.glob("*")):
            if path.suffix == ".zip" or (path / "data.txt").exists() or (path / "data" / "data.txt").exists():
                paths[KNOWN.get(path.stem, path.stem)] = path
    if not paths:
        raise DataError(
            f"{root or f'{VARIABLE}, which is not set,'} has no tables in {' or '.join(FOLDERS)}",
            fix=f"set {VARIABLE} to a folder that has some; `r2d2net data fetch {' '.join(KNOWN.values())}` downloads "
            "to it",
        )
    return dict(sorted(paths.items()))


def splits_of(table: Path) -> int:
    """Count the splits of a table; a table without index files has the published ones.

    Args:
        table: Folder or zip file of the table.

    Returns:
        The number of splits.
    """
    names = {last_part(name) for name in member_names(table)}
    if "index_train_0.txt" not in names:
        return SPLITS
    return sum(name.startswith("index_train_") and name.endswith(".txt") for name in names)


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every row on every table, on as many of its splits as there are replicates."""
    size = SIZES[scale]
    wanted = size["splits"] if replicates is None else replicates
    counts = {name: splits_of(path) for name, path in list(tables().items())[: size["most"]]}
    return [
        Cell(
            f"{row}-{name}-{split}",
            {
                "row": row,
                "setting": name,
                "replicate": split,
                "seed": split,
                "method": {"members": size["members"]} if row == "de" else {},
                "steps": size["steps"],
                "factors": size["factors"],
            },
        )
        for split in range(wanted)
        for name, count in counts.items()
        if split < count
        for row in (*ROWS, *WITHOUT_CHOICE)
    ]


class Split(NamedTuple):
    """A split of a table into training, held-out and test rows."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    test_x: Tensor
    test_y: Tensor


def read_split(settings: Settings) -> Split:
    """Read the split of a cell; a tenth of its training rows is held out, by the cell's seed.

    Args:
        settings: Those of the cell: setting, replicate, seed.

    Returns:
        The rows, in the table's units.

    Raises:
        DataError: The table does not have this split.
    """
    table: Table = data.read_uci(tables()[settings["setting"]])
    if settings["replicate"] >= len(table.splits):
        problem = f"{settings['setting']} has no split {settings['replicate']}"
        raise DataError(problem, fix=f"use one of its {len(table.splits)}, counted from 0")
    (x, y), (test_x, test_y) = table.split(settings["replicate"])
    y, test_y = y.reshape(-1), test_y.reshape(-1)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(settings["seed"]))
    held, kept = order[: round(VALIDATION * len(y))], order[round(VALIDATION * len(y)) :]
    return Split(x[kept], y[kept], x[held], y[held], test_x, test_y)


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Fit a row to one split of one table; figures are in the table's units."""
    rows = read_split(settings)
    posterior, tried = _fitted(settings, rows, place)
    predicted: Any = posterior.predict(rows.test_x, DRAWS)
    return {
        "rmse": metrics.rmse(rows.test_y, predicted.mean),
        "nll": metrics.nll(rows.test_y, predicted),
        "coverage": metrics.coverage(rows.test_y, *predicted.interval(0.9)),
        "tried": tried,
    }


def _fitted(settings: Settings, rows: Split, place: Place) -> tuple[Posterior[Any], list[dict[str, Any]]]:
    """Fit a row; the second of what is returned has the scores of held-out rows where they chose."""
    net = nets.mlp(rows.x.shape[1], [HIDDEN], 1)
    if settings["row"] in WITHOUT_CHOICE:
        everything = torch.cat([rows.x, rows.held_x]), torch.cat([rows.y, rows.held_y])
        common: dict[str, Any] = {"seed": settings["seed"], "resume": place.run, "jobs": 1, "verbose": False}
        if settings["row"] == "default":
            return fit_stacked(everything, Gaussian(), hidden=[HIDDEN], **common), []
        model = BayesianModel(net, prior_of(settings["row"]))
        return fit(model, everything, method_of(settings["row"]), **common), []
    training = {
        **settings,
        "recipe": "ours",
        "epochs": max(1, settings["steps"] // max(1, len(rows.y) // BATCH)),
        "batch_size": min(BATCH, len(rows.y)),
    }
    chosen = fit_row(
        training,
        net,
        rows,
        place,
        prior="auto" if settings["row"] == "adaptive-svgi" else None,
        restarts=1 if settings["row"] in ("de", "adaptive-svgi") else 2,
    )
    return chosen.posterior, chosen.tried


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    size, full = SIZES[scale], SIZES["paper"]
    if scale == "paper":
        return ""
    few = "" if size["most"] is None else f"{size['most']} table, "
    return f"{few}{size['splits']} splits of {full['splits']}, {size['steps']:,} steps of {full['steps']:,}"


ARTEFACT = Artefact(
    name="uci",
    title=TITLES["uci"],
    cells=cells,
    compute=compute,
    reduced=reduced,
)
