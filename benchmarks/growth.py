"""How time grows with rows, columns, weights, members and draws.

    python benchmarks/growth.py [--quick] [--out results/benchmarks/growth.json] [--figure docs/figures/growth.png]

    rows      an epoch of SVGI in batches of 1,024, and predictions by 10 draws; 10 columns, 50 hidden units
    columns   a step of SVGI of 128 rows, and the relevance of the inputs (200 rows, 10 draws); 50 hidden units
    weights   a step of SVGI of 32 rows; two hidden layers of equal width
    members   an ensemble of networks of 50 hidden units, 10 epochs of 500 rows in one process
    draws     predictions of 256 rows; 10 columns, 50 hidden units

CPU seconds of one thread. Small sizes are repeated; the least time counts. The exponent b of time ~ size^b is that of
the larger half of the sizes, by least squares: up to 1 time grows linearly or slower. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.shrinkage import input_relevance
from relevance_speed import untrained

Case = Callable[[int], Callable[[], object]]
LINEAR = 1.1  # exponents up to here count as linear: caches and the noise of measurements add some


def _rows(count: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, columns, generator=g)
    return x, x[:, 0] + torch.randn(count, generator=g)


def epoch(count: int) -> Callable[[], object]:
    data, model = _rows(count, 10), rn.BayesianModel(rn.nets.mlp(10, [50]), rn.priors.R2D2())
    return lambda: rn.fit(model, data, epochs=1, batch_size=min(count, 1024), seed=0, verbose=False)


def predicted(count: int) -> Callable[[], object]:
    x, _ = _rows(count, 10)
    posterior = untrained(10, (50,), x)
    return lambda: posterior.predict(x, 10)


def drawn(draws: int) -> Callable[[], object]:
    x, _ = _rows(256, 10)
    posterior = untrained(10, (50,), x)
    return lambda: posterior.predict(x, draws)


def step(inputs: int, hidden: tuple[int, ...], rows: int) -> Callable[[], object]:
    x, y = _rows(rows, inputs)
    g = torch.Generator().manual_seed(0)
    model = rn.BayesianModel(rn.nets.mlp(inputs, hidden), rn.priors.R2D2())
    trainer = rn.inference.SVGI().build(model, n=10_000, steps=1000)
    state: Any = trainer.init(y[:, None], g)

    def eight() -> None:  # one of them sweeps the scales
        nonlocal state
        for _ in range(8):
            state, _ = trainer.step(state, (x, y[:, None]), g)

    return eight


def of_columns(count: int) -> Callable[[], object]:
    return step(count, (50,), 128)


def relevance(count: int) -> Callable[[], object]:
    x, _ = _rows(200, count)
    posterior = untrained(count, (50,), x)
    return lambda: input_relevance(posterior, x, draws=10, shuffles=2)


def of_weights(count: int) -> Callable[[], object]:
    width = max(1, round((-13 + math.sqrt(169 + 4 * count)) / 2))  # width^2 + 13 width weights, with 10 inputs
    return step(10, (width, width), 32)


def members(count: int) -> Callable[[], object]:
    data, model = _rows(500, 10), rn.BayesianModel(rn.nets.mlp(10, [50]), rn.priors.Gaussian())
    method = rn.inference.DeepEnsemble(members=count)
    return lambda: rn.fit(model, data, method, epochs=10, batch_size=100, seed=0, jobs=1, verbose=False)


CASES: dict[str, tuple[str, Case, list[int]]] = {
    "an epoch": ("rows", epoch, [1_000, 10_000, 100_000, 1_000_000]),
    "predictions": ("rows", predicted, [1_000, 10_000, 100_000, 1_000_000]),
    "a step": ("columns", of_columns, [10, 50, 200, 1_000, 5_000]),
    "relevance of inputs": ("columns", relevance, [10, 50, 200, 1_000, 5_000]),
    "a step of a network": ("weights", of_weights, [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 40_000_000]),
    "an ensemble": ("members", members, [1, 2, 4, 8, 16, 32, 64]),
    "predictions by draws": ("draws", drawn, [1, 10, 100, 1_000]),
}


def seconds(run: Callable[[], object]) -> float:
    """Measure CPU seconds: the least of up to five runs, and of one if it takes more than two seconds."""
    found: list[float] = []
    while len(found) < 5 and sum(found) < 2:
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def exponent(sizes: list[int], times: list[float]) -> float:
    """Fit the exponent of time ~ size^b to the larger half of the sizes.

    >>> round(exponent([1, 10, 100, 1000], [5.0, 5.0, 1.0, 10.0]), 6)
    1.0
    """
    first = min(len(sizes) // 2, len(sizes) - 2)
    x, y = ([math.log(value) for value in values[first:]] for values in (sizes, times))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw time over size for each case, beside a line of slope 1 through its last point."""
    from matplotlib.figure import Figure

    dimensions = list(dict.fromkeys(case["over"] for case in cases))
    figure = Figure(figsize=(2.9 * len(dimensions), 3.2), layout="constrained")
    panels = figure.subplots(1, len(dimensions), squeeze=False)[0]
    for panel, dimension in zip(panels, dimensions, strict=True):
        for case in (case for case in cases if case["over"] == dimension):
            sizes, times = case["sizes"], case["cpu_seconds"]
            panel.loglog(sizes, times, marker="o", label=f"{case['of']} ({case['exponent']:.2f})")
            panel.loglog(sizes, [times[-1] * size / sizes[-1] for size in sizes], color="0.7", linestyle=":", zorder=0)
        panel.set(xlabel=dimension, ylabel="CPU seconds" if dimension == dimensions[0] else "")
        panel.legend(fontsize=8, frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the two largest sizes; nothing is written")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/growth.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/growth.png"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of fits that are too short to be good
    cases: list[dict[str, Any]] = []
    for name, (over, case, sizes) in CASES.items():
        chosen = sizes[:-2] if options.quick else sizes
        times = [seconds(case(size)) for size in chosen]
        cases.append({"of": name, "over": over, "sizes": chosen, "cpu_seconds": times})
        cases[-1]["exponent"] = exponent(chosen, times)
        more = "" if cases[-1]["exponent"] <= LINEAR else "   <-- faster than linearly"
        shown = ", ".join(f"{size:,}: {value:.3g} s" for size, value in zip(chosen, times, strict=True))
        print(f"{name} over {over}: {shown}; exponent {cases[-1]['exponent']:.2f}{more}", flush=True)
    if not options.quick:
        write_json(options.out, {"cases": cases, "linear_up_to": LINEAR, **provenance({}, 0)})
        draw(cases, options.figure)


if __name__ == "__main__":
    main()
