"""Simulation-based calibration of every variational algorithm under every prior: what can be trusted, and what not.

    python benchmarks/simulated_calibration.py [--tables 60] [--only svgi cavi]

    linear   4 normal inputs, 30 rows, one linear layer with an intercept
    mlp      3 normal inputs, 40 rows, one hidden layer of 8 tanh units

Weights are drawn from the priors as they are by default, targets with noise 1; tables with a target above 10 are drawn
again. Fits take 300 steps of all rows. `rn.diagnostics.vsbc` ranks weights, their sizes, outputs at five new rows and
the log likelihood among 200 draws. Rows that are there are not computed again. The figure has the coverage of all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn

import r2d2net as rn
from r2d2net.diagnostics import vsbc
from r2d2net.files import write_json
from r2d2net.inference import method_named
from r2d2net.provenance import provenance
from r2d2net.registry import PRIORS, SUITABLE_PRIORS

FILE, FIGURE = "simulated-calibration.json", "simulated-calibration.png"
ALGORITHMS = ("svgi", "cavi", "svi", "mfvi", "radial")
NETWORKS = ("linear", "mlp")
FIRST = ["gaussian", "r2d2", "adaptive", "horseshoe"]  # of the priors, under all algorithms
INPUTS, ROWS = {"linear": 4, "mlp": 3}, {"linear": 30, "mlp": 40}
STEPS = 300
Row = dict[str, Any]


def network(name: str) -> nn.Module:
    """Build one of the networks."""
    torch.manual_seed(0)
    return nn.Linear(INPUTS[name], 1) if name == "linear" else rn.nets.mlp(INPUTS[name], [8], 1, activation="tanh")


def cell(kind: str, algorithm: str, prior: str, tables: int) -> tuple[list[Row], Any]:
    """Measure one algorithm under one prior."""
    model = rn.BayesianModel(network(kind), PRIORS.constructor(prior)(), rn.likelihoods.Gaussian(noise=1.0))
    start = time.process_time()
    found = vsbc(model, method_named(algorithm), rows=ROWS[kind], tables=tables, epochs=STEPS, seed=1)
    labels = {"network": kind, "algorithm": algorithm, "prior": prior}
    seconds = time.process_time() - start
    return [{**row, **labels, "seconds": seconds} for row in found.plain()], found


def draw(rows: list[Row], path: Path) -> None:
    """Draw the coverage of 90% intervals of all cells."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    priors = list(dict.fromkeys(row["prior"] for row in rows))
    figure, panels = pyplot.subplots(
        len(NETWORKS), len(quantities), figsize=(13, 6.5), sharex=True, sharey=True, layout="constrained"
    )
    for kind, line in zip(NETWORKS, panels, strict=True):
        for quantity, axes in zip(quantities, line, strict=True):
            for place, algorithm in enumerate(ALGORITHMS):
                own = [r for r in rows if (r["network"], r["quantity"], r["algorithm"]) == (kind, quantity, algorithm)]
                at = [priors.index(row["prior"]) + 0.15 * (place - 2) for row in own]
                share, error = ([row[name] for row in own] for name in ("covered_90", "covered_90_error"))
                axes.errorbar(share, at, xerr=error, fmt="o", markersize=3, linewidth=1, label=algorithm)
            axes.axvline(0.9, color="grey", linewidth=1, linestyle="--")
            axes.set_title(f"{kind}: {quantity}", fontsize="medium")
            axes.set_yticks(range(len(priors)), priors)
            axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].legend(frameon=False, fontsize="small")
    figure.supxlabel("share of truths inside 90% intervals")
    figure.savefig(path, dpi=110)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def markdown(rows: list[Row], kind: str) -> list[str]:
    """Write the coverage of 90% intervals on one network as a table, with the direction of what is off."""
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    lines = [f"| {kind}: algorithm, prior | {' | '.join(quantities)} |", "|---" * (1 + len(quantities)) + "|"]
    for algorithm, prior in dict.fromkeys((row["algorithm"], row["prior"]) for row in rows if row["network"] == kind):
        own = {
            row["quantity"]: row
            for row in rows
            if (row["network"], row["algorithm"], row["prior"]) == (kind, algorithm, prior)
        }
        cells = " | ".join(_cell(own[quantity]) for quantity in quantities)
        lines.append(f"| {algorithm}, {prior} | {cells} |")
    return lines


def _cell(row: Row) -> str:
    share = f"{row['covered_90']:.0%}"
    if row["verdict"] == "can be trusted":
        return f"**{share}**"
    words = [word for word in ("narrow", "wide", "large", "small") if word in row["verdict"]]
    return f"{share} {', '.join(words)}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--only", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = arguments.out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["network"], row["algorithm"], row["prior"]) for row in rows}
    groups = FIRST, [prior for prior in PRIORS if prior not in FIRST]
    for algorithm, prior, kind in (one for g in groups for one in itertools.product(arguments.only, g, NETWORKS)):
        if prior not in SUITABLE_PRIORS.get(algorithm, tuple(PRIORS)) or (kind, algorithm, prior) in done:
            continue
        new, found = cell(kind, algorithm, prior, arguments.tables)
        rows += [{**row, "commit": provenance({})["commit"]} for row in new]
        print(kind, algorithm, prior, f"{new[0]['seconds']:.0f} s:", found.verdict, flush=True)
        write_json(path, {"rows": rows, **provenance({"command": sys.argv[1:]})})
    draw(rows, arguments.out / FIGURE)


if __name__ == "__main__":
    main()
