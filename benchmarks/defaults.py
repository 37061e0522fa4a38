"""How the default settings of the rivals were chosen: on validation images, which are never the test images.

    python benchmarks/defaults.py --data FOLDER  [--only EDL DPN] [--seeds 2] [--out out/bench]

LeNet, Gaussian prior, three epochs of the first 50,000 training images of MNIST; accuracy and negative log likelihood
of the other 10,000. Step sizes are shares of what `Training` would take by default for a run of this length. Results
are written to defaults.json as they come, and those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import r2d2net as rn
from r2d2net import metrics
from r2d2net.data import Preprocess, load
from r2d2net.files import write_json
from r2d2net.provenance import provenance

EPOCHS, ROWS, VALIDATION, DRAWS = 3, 128, 10_000, 20
Setting = dict[str, float | None]


def product(**values: tuple[float | None, ...]) -> list[Setting]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


# share: of the default step size. rho_share: of the means' step size.
GRIDS: dict[str, list[Setting]] = {
    "EDL": product(share=(1.0, 0.5, 0.25, 0.1), rise=(0.5,))
    + product(share=(0.25,), rise=(0.2, 1.0))
    + product(share=(0.5, 0.25, 0.1), batch_size=(1024,)),
    "DPN": product(share=(1.0, 0.5, 0.25, 0.1), clip=(None, 1.0))
    + product(share=(0.25,), clip=(1.0,), precision=(10.0, 1000.0))
    + product(share=(0.25,), clip=(1.0,), smoothing=(0.02, 0.2))
    + product(share=(1.0, 0.5, 0.25, 0.1), clip=(1.0,), batch_size=(1024,)),
    "SVI": product(rho_share=(1 / 3, 1 / 10, 1 / 20, 1 / 60)),
    "Radial": product(rho_share=(1 / 3, 1 / 10, 1 / 20, 1 / 60)),
    "SGLD": [{}, *product(lr=(0.01, 0.03, 0.1))],
    "SGHMC": [{}, *product(lr=(0.01, 0.03, 0.1))],
}


def digits(root: Path) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Load the training images and the validation images."""
    images = load("mnist", root)
    prepare = Preprocess.fitted(images.images[:-VALIDATION])
    x, y = prepare(images.images), images.labels
    return (x[:-VALIDATION], y[:-VALIDATION]), (x[-VALIDATION:], y[-VALIDATION:])


def settings_of(setting: Setting, default_lr: float) -> dict[str, Any]:
    """Convert a setting to an algorithm's arguments: shares of the default step size become step sizes."""
    arguments: dict[str, Any] = {name: value for name, value in setting.items() if name != "batch_size"}
    if "share" in arguments:
        arguments["lr"] = arguments.pop("share") * default_lr
    if "rho_share" in arguments:
        arguments["lr_rho"] = arguments.pop("rho_share") * default_lr
    return arguments


def judged(name: str, setting: Setting, seed: int, data: Any, held_out: tuple[Tensor, Tensor]) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = rn.BayesianModel(rn.nets.LeNet(1, 10, 28), rn.priors.Gaussian(), rn.likelihoods.Categorical())
    n, rows = len(data[1]), int(setting.get("batch_size") or ROWS)
    default_lr = rn.inference.MAP().build(model, n=n, steps=EPOCHS * (n // rows)).descent.largest_step
    algorithm = getattr(rn.inference, name)(**settings_of(setting, default_lr))
    start = time.perf_counter()
    posterior = rn.fit(
        model, data, algorithm, epochs=EPOCHS, batch_size=rows, seed=seed, standardize=False, verbose=False
    )
    x, y = held_out
    predicted: Any = posterior.predict(x, draws=DRAWS)
    return {
        "accuracy": metrics.accuracy(y, predicted.probs),
        "nll": metrics.nll(y, predicted),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds mnist")
    parser.add_argument("--only", nargs="+", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    console, data = Console(), digits(options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "defaults.json"
    stored: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for name in options.only:
        rows: list[dict[str, Any]] = stored[name]["rows"] if name in stored else []
        for setting in GRIDS[name]:
            for seed in range(options.seeds):
                if any(row["setting"] == setting and row["seed"] == seed for row in rows):
                    continue
                row = {"setting": setting, "seed": seed, **judged(name, setting, seed, *data)}
                rows.append(row)
                console.print(name, row)
                facts = {"epochs": EPOCHS, "batch_size": ROWS, "validation": VALIDATION, "draws": DRAWS}
                stored[name] = {"rows": rows, **provenance(facts, seed=seed)}
                write_json(file, stored)
        table = Table("setting", "accuracy", "NLL", title=name)
        for setting in GRIDS[name]:
            runs = [row for row in rows if row["setting"] == setting]
            table.add_row(
                ", ".join(f"{k}={v if v is None else round(v, 4)}" for k, v in setting.items()) or "default",
                " ".join(f"{run['accuracy']:.4f}" for run in runs),
                " ".join(f"{run['nll']:.4f}" for run in runs),
            )
        console.print(table)


if __name__ == "__main__":
    main()
