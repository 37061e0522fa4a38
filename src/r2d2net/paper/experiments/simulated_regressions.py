"""What the experiments on simulated regressions share: their sizes, and rows cut into training, held-out and test."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from r2d2net import data
from r2d2net.paper.experiments.artefact import Scale
from r2d2net.paper.experiments.grid import Settings
from r2d2net.paper.experiments.table_rows import our_training

TRAIN, HELD = 0.8, 0.1  # share of the rows that are not test rows, and of those the share that is held out

SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"rows": 600, "epochs": 10, "batch_size": 128, "factors": [1.0], "recipe": "ours"},
    "machine": {
        "rows": 10_000,
        "epochs": 100,
        "batch_size": 1024,
        "factors": [1.0, 0.3],
        "recipe": "ours",
    },
    "paper": {
        "rows": 10_000,
        "epochs": 100,
        "batch_size": 1024,
        "factors": [1.0, 0.3, 3.0],
        "recipe": "paper",
    },
}
REPLICATES: dict[Scale, int] = {"smoke": 1, "machine": 3, "paper": 5}


class Rows(NamedTuple):
    """A simulated data set, cut into training, held-out and test rows."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    test_x: Tensor
    test_y: Tensor
    test_mean: Tensor  # the true function of the test rows


def simulated_rows(settings: Settings) -> Rows:
    """Simulate the data set of a cell.

    Args:
        settings: Those of the cell: scenario, rows, seed; and variant, by default that of the paper's table.

    Returns:
        The rows.
    """
    variant = settings.get("variant", "table")
    simulated = data.simulate(settings["scenario"], n=settings["rows"], seed=settings["seed"], variant=variant)
    train = round(TRAIN * settings["rows"])
    fitted = round((1 - HELD) * train)
    parts = (slice(0, fitted), slice(fitted, train), slice(train, None))
    (x, y), (held_x, held_y), (test_x, test_y) = ((simulated.x[part], simulated.y[part]) for part in parts)
    return Rows(x, y, held_x, held_y, test_x, test_y, simulated.mean[train:])


def reduced(scale: Scale, replicates: int | None = None) -> str:
    """Say what a scale leaves out.

    Args:
        scale: The scale.
        replicates: Number of data sets, where it is not the usual one.

    Returns:
        A sentence; "" for the paper's scale.
    """
    if scale == "paper":
        return ""
    size, full = SIZES[scale], SIZES["paper"]
    fewer = [f"{size[name]:,} {name} of {full[name]:,}" for name in ("rows", "epochs") if size[name] < full[name]] + [
        f"{replicates or REPLICATES[scale]} data sets of {REPLICATES['paper']}"
    ]
    return f"{', '.join(fewer)}; {our_training(size)}"
