"""Peak memory of a rank whose state is whole or divided, in floats a weight. Linux only.

    python benchmarks/shard_memory.py [--width 6100] [--out results/benchmarks/shard-memory.json]

SVGI with R2D2 on a perceptron 784-6100-5700-10 of forty million weights, most of them in one layer: its start, with one
sweep in place of ten, which take no more memory, and 3 steps of 4 rows, one of them with a sweep. One process; two with
whole states (`ranks="auto"`); two with divided ones (`ranks="sharded"`). The peak is the resident memory of a process
beyond what it used when it had its network.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import r2d2net as rn
from memory import peak, start
from r2d2net.files import write_json
from r2d2net.inference import sharded, variational
from r2d2net.inference.base import flatten
from r2d2net.provenance import provenance
from r2d2net.ranks import RowSplit, ranks_of_world
from r2d2net.run.sharded_run import divided_among
from rank_processes import outputs_of_ranks

STEPS = 3
HOWS = {"one process, whole": (1, False), "two processes, whole": (2, False), "two processes, divided": (2, True)}


def rank_work(width: int, divided: bool) -> None:
    """Train on this rank and tell its peak."""
    torch.set_num_threads(1)
    for module in (variational, sharded):
        setattr(module, "START_SWEEPS", 1)  # noqa: B010 (for mypy it is not theirs)
    ranks = ranks_of_world(torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 784, generator=generator), torch.randint(10, (4,), generator=generator)
    net = rn.nets.mlp(784, [width, width - 400], 10)
    model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical())
    before = start()
    trainer: Any = rn.inference.SVGI(estimator="weights", sweep_every=2).build(model, n=1_000_000, steps=1000)
    if ranks.size > 1:
        split = RowSplit(ranks, 0)
        if divided:
            trainer = divided_among(trainer, split)
        else:
            trainer.split_rows(split)
    rows = slice(ranks.rank, None, ranks.size)
    begun, draws = time.process_time(), torch.Generator().manual_seed(1)
    state = trainer.init(y, draws)
    at_start = peak() - before
    for _ in range(STEPS):
        state, info = trainer.step(state, (x[rows], y[rows]), draws)
    own = sum(t.numel() * t.element_size() for t in flatten(state).values())
    found = {
        "weights": model.size,
        "floats of the start": at_start / 4 / model.size,
        "floats of the peak": (peak() - before) / 4 / model.size,
        "floats of the state": own / 4 / model.size,
        "resident gigabytes": peak() / 1e9,
        "nll": float(info.nll),
        "cpu seconds": time.process_time() - begun,
    }
    print("FOUND" + json.dumps(found), flush=True)
    if ranks.size > 1:
        ranks.barrier()


def world(width: int, size: int, divided: bool) -> list[dict[str, Any]]:
    """Start processes that train together; return what each tells."""
    words = ["--width", str(width), *(["--divided"] if divided else [])]
    outs = outputs_of_ranks(__file__, size, words)
    return [json.loads(line[5:]) for out in outs for line in out.splitlines() if line.startswith("FOUND")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=6100)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/shard-memory.json"))
    parser.add_argument("--rank", action="store_true", help="measure on one of several processes")
    parser.add_argument("--divided", action="store_true", help="with a divided state")
    options = parser.parse_args()
    if options.rank:
        rank_work(options.width, options.divided)
        return
    found: dict[str, Any] = {how: world(options.width, *HOWS[how]) for how in HOWS}
    print(json.dumps(found, indent=2))
    write_json(options.out, {**found, **provenance({"width": options.width}, 0)})


if __name__ == "__main__":
    main()
