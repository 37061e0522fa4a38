"""CPU seconds of `input_relevance` at many inputs, one thread.

    python benchmarks/relevance_speed.py [--inputs 4000] [--rounds 3] [--out results/benchmarks/relevance-speed.json]

50 draws and 2 shuffles, as `r2d2net fit` and the estimators have it, at 500 rows, the most that they take, and at 71,
for a linear network, one hidden layer of 50 and two. The time does not depend on what the network has learnt.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.network_inputs import no_units
from r2d2net.posterior import Posterior
from r2d2net.provenance import provenance
from r2d2net.shrinkage import input_relevance

LIMITS = {(name, rows): 1.0 for name in ("linear", "one hidden layer") for rows in (71, 500)}  # CPU seconds
HIDDEN: dict[str, tuple[int, ...]] = {"linear": (), "one hidden layer": (50,), "two hidden layers": (50, 50)}


def untrained(inputs: int, hidden: tuple[int, ...], x: torch.Tensor) -> Posterior[Any]:
    """Make the posterior with which training by SVGI would start."""
    generator = torch.Generator().manual_seed(0)
    model = rn.BayesianModel(rn.nets.mlp(inputs, hidden), rn.priors.R2D2())
    trainer = rn.inference.SVGI().build(model, n=len(x), steps=10)
    return Posterior(trainer.source(trainer.init(x[:, :1], generator)), no_units(x), flat_target=True)


def seconds(inputs: int, table_rows: int, hidden: tuple[int, ...], rounds: int) -> float:
    """Measure one network; the least of the rounds."""
    x = torch.randn(table_rows, inputs, generator=torch.Generator().manual_seed(1))
    posterior, found = untrained(inputs, hidden, x), []
    input_relevance(posterior, x[:, :inputs], draws=1, shuffles=1)
    for _ in range(rounds):
        start = time.process_time()
        input_relevance(posterior, x, draws=50, shuffles=2)
        found.append(time.process_time() - start)
    return min(found)


def rows(inputs: int = 4000, rounds: int = 3) -> Iterator[tuple[str, str, str, float, str, float, float | None]]:
    """Iterate over the figures as rows of `speed.py`."""
    for table_rows in (71, 500):
        for name, hidden in HIDDEN.items():
            if len(hidden) > 1 and table_rows > 71:
                continue
            value = seconds(inputs, table_rows, hidden, rounds)
            what = f"{inputs:,} inputs, {table_rows} rows"
            yield "relevance", what, name, value, "CPU s", value, LIMITS.get((name, table_rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for _, what, name, value, *_, limit in rows(options.inputs, options.rounds):
        found.append({"of": what, "network": name, "cpu_seconds": value, "limit": limit})
        print(json.dumps(found[-1]), flush=True)
    if options.out is not None:
        write_json(options.out, {"relevance": found, **provenance({"rounds": options.rounds})})


if __name__ == "__main__":
    main()
