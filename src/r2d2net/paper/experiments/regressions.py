"""What the figures on simulated regressions share: rows cut in three, and the paper's MLP of a row fitted to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from r2d2net import data, nets
from r2d2net.model import AnyPrior
from r2d2net.paper.experiments.artefact import Scale
from r2d2net.paper.experiments.fitted_rows import fitted, our_training
from r2d2net.paper.experiments.grid import Place, Settings
from r2d2net.paper.experiments.tuning import Tuned

TRAIN, HELD = 0.8, 0.1  # share of the rows that train, and of those the share that is held out to choose by

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
    """A simulated data set, cut in training, held-out and test rows; test_mean is the true function of the last."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor
    test_x: Tensor
    test_y: Tensor
    test_mean: Tensor


def simulated_rows(settings: Settings) -> Rows:
    """The rows of a cell: its scenario, in the table's variant unless it says otherwise, by its seed."""
    variant = settings.get("variant", "table")
    made = data.simulate(settings["scenario"], n=settings["rows"], seed=settings["seed"], variant=variant)
    train = round(TRAIN * settings["rows"])
    fitted = round((1 - HELD) * train)
    ends = (slice(0, fitted), slice(fitted, train), slice(train, None))
    (x, y), (held_x, held_y), (test_x, test_y) = ((made.x[end], made.y[end]) for end in ends)
    return Rows(x, y, held_x, held_y, test_x, test_y, made.mean[train:])


def fitted_mlp(settings: Settings, rows: Rows, place: Place, prior: AnyPrior | None = None) -> Tuned:
    """The paper's MLP of so many layers under a row's prior, or another one; held-out rows choose the step size."""
    net = nets.paper_mlp(rows.x.shape[1], settings["layers"])
    return fitted(settings, net, (rows.x, rows.y), (rows.held_x, rows.held_y), place, prior=prior)


def reduced(scale: Scale, replicates: int | None = None) -> str:
    """What a scale leaves out; ``replicates`` where they are not the usual number."""
    if scale == "paper":
        return ""
    size, full = SIZES[scale], SIZES["paper"]
    fewer = [f"{size[name]:,} {name} of {full[name]:,}" for name in ("rows", "epochs") if size[name] < full[name]] + [
        f"{replicates or REPLICATES[scale]} data sets of {REPLICATES['paper']}"
    ]
    return f"{', '.join(fewer)}; {our_training(size)}"
