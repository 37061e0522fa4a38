"""What should ``algorithm="auto"`` take for one linear layer on a table of many more inputs than rows?

    python benchmarks/wide_linear.py [--tables "classes 60 x 5,000" ...] [--out results/benchmarks]

Inputs are independent normal numbers, and 400 rows (600 for 60 rows) are for the test:

    sparse     y = x' b + e, six of the inputs count, noise variance 1
    dense      the same with all inputs, noise a third of the signal's deviation
    classes    three classes with other means, 1.5 N(0, 1) in each of five inputs ("far": 4 N(0, 1))

All fits have the R2D2 prior and the lengths that "auto" gives them; "LinearGibbs 250" has so many sweeps. Scores are
the mean negative log density of the test rows (of classes: their log loss), for numbers also R2. Seconds are CPU
seconds of one thread. Rows of other tables stay in wide-linear.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.inference import method_named
from r2d2net.provenance import provenance
from r2d2net.run.choice import epochs_for

Row = dict[str, Any]
SHORT = ("SVGI", "MCLMC", "LinearGibbs 250")
TABLES: dict[str, tuple[str, int, int, int, tuple[str, ...]]] = {  # kind, rows, inputs, seed, contestants
    "classes 60 x 5,000": ("classes", 60, 5_000, 0, (*SHORT, "LinearGibbs 1000")),
    "classes 60 x 20,000": ("classes", 60, 20_000, 0, SHORT),
    "classes 60 x 20,000, far": ("far", 60, 20_000, 0, SHORT),
    "classes 300 x 3,000": ("classes", 300, 3_000, 0, SHORT[:2]),
    "classes 300 x 3,000, again": ("classes", 300, 3_000, 1, SHORT[:2]),
    "sparse 300 x 3,000": ("sparse", 300, 3_000, 0, SHORT),
    "dense 300 x 3,000": ("dense", 300, 3_000, 0, SHORT[:2]),
    "sparse 200 x 10,000": ("sparse", 200, 10_000, 0, SHORT),
    "dense 200 x 10,000": ("dense", 200, 10_000, 0, SHORT[:2]),
}


def table(kind: str, rows: int, inputs: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw training rows, and test rows after them."""
    g = torch.Generator().manual_seed(seed)
    n = rows + (600 if rows == 60 else 400)
    if kind in ("classes", "far"):
        y, centers = torch.arange(n) % 3, torch.zeros(3, inputs)
        centers[:, :5] = (4.0 if kind == "far" else 1.5) * torch.randn(3, 5, generator=g)
        return centers[y] + torch.randn(n, inputs, generator=g), y
    x = torch.randn(n, inputs, generator=g)
    if kind == "sparse":
        return x, x[:, :6] @ torch.tensor([2.0, -2.0, 1.5, -1.5, 1.0, 1.0]) + torch.randn(n, generator=g)
    signal = x @ torch.randn(inputs, generator=g)
    return x, 3 * signal / signal.std() + torch.randn(n, generator=g)


def measured(x: Tensor, y: Tensor, rows: int, contestant: str) -> Row:
    """Fit a linear layer; return its scores on test rows."""
    name, *sweeps = contestant.split()
    classes = not y.is_floating_point()
    likelihood: Any = rn.likelihoods.Categorical() if classes else rn.likelihoods.Gaussian()
    torch.manual_seed(0)
    model = rn.BayesianModel(nn.Linear(x.shape[1], 3 if classes else 1), rn.priors.R2D2(), likelihood)
    method = method_named(name)
    epochs = int(sweeps[0]) if sweeps else epochs_for(rows, None, method, model)
    start = time.process_time()
    posterior: Any = rn.fit(model, (x[:rows], y[:rows]), method, epochs=epochs, verbose=False)
    seconds = time.process_time() - start
    predicted = posterior.predict(x[rows:])
    row: Row = {"nll": -float(predicted.log_prob(y[rows:]).mean()), "epochs": epochs, "seconds": seconds}
    if not classes:
        row["r2"] = 1 - float((predicted.mean - y[rows:]).square().mean() / y[rows:].var())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "wide-linear.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    for name in arguments.tables:
        kind, n, inputs, seed, contestants = TABLES[name]
        x, y = table(kind, n, inputs, seed)
        rows = [row for row in rows if row["table"] != name]
        for contestant in contestants:
            rows.append({"table": name, "contestant": contestant, "seed": seed, **measured(x, y, n, contestant)})
            print(*(f"{v:.3f}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
        write_json(path, {"rows": rows, **provenance({"command": sys.argv[1:]})})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
