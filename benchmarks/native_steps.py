"""What the native kernels and two more ways to uncertainty cost beside plain training.

    python benchmarks/native_steps.py [--quick] [--threads 1 2] [--out results/benchmarks]

In one process the contestants take turns, as in speed.py, which has these rows too: training steps of R2D2 by torch and
by the kernels; IVON, which learns a Gaussian posterior (where peers are installed, see peers.py); and a deep ensemble
of 8 plain networks, whose step is one of each. Processor time of one thread, wall time of several; medians of
15 rounds of 8 steps. Sweeps: the kernels' Gibbs sweep and coordinate-ascent update of one layer, ns a weight.

The numbers are written to native-steps.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import r2d2net as rn
from bench_rows import Row, machine, missed, table_of
from bench_rows import console as wide_console
from memory import OURS
from peers import deep_ensemble, ivon
from r2d2net.files import write_json
from r2d2net.native import library
from r2d2net.paper.experiments.complexity import plain_training
from r2d2net.priors.r2d2_native import native_cavi_, native_gibbs_
from r2d2net.provenance import provenance
from step_cost import NETS, N, Step, batch, bayesian, steady_memory, turns

LIMITS = {  # largest ratios to plain training, one thread
    ("MLP", "R2D2 by SVGI, native"): 1.4,
    ("MLP", "R2D2 by CAVI, native"): 1.3,
    ("LeNet", "R2D2 by SVGI, native"): 1.05,
    ("LeNet", "R2D2 by CAVI, native"): 1.05,
}
SIZES = (100_000, 1_000_000, 10_000_000)


def native(make: Callable[[], nn.Module], x: Tensor, y: Tensor, timed: int) -> dict[str, Step]:
    """Build the steps by the kernels; none where they are not built."""
    if library.problem() is not None:
        return {}
    return {
        f"{name}, native": bayesian(kind(compile="native"), make(), rn.priors.R2D2(), x, y, 0.5, timed)
        for name, kind in OURS.items()
    }


def others(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> dict[str, Step]:
    """Build the steps of IVON, where it is installed, and of a deep ensemble."""
    found = {"deep ensemble of 8": deep_ensemble(make(), x, y, N).step}
    return {**({"ivon, Gaussian": ivon(make(), x, y, N).step} if importlib.util.find_spec("ivon") else {}), **found}


def steps(rounds: int, count: int, clock: Callable[[], float]) -> Iterator[Row]:
    for net, (make, shape) in NETS.items():
        x, y = batch(shape)
        contestants: dict[str, Step] = {
            "plain": plain_training(make(), x, y),
            "plain, fused Adam": plain_training(make(), x, y, fused=True),
        }
        for name, kind in OURS.items():
            contestants[name] = bayesian(kind(), make(), rn.priors.R2D2(), x, y, 0.5, rounds * count)
        contestants |= native(make, x, y, rounds * count) | others(make, x, y)
        times = turns(contestants, rounds, count, clock)
        for who, seconds in times.items():
            ratio = statistics.median(a / b for a, b in zip(seconds, times["plain"], strict=True))
            yield Row("training step", net, who, ratio, "of plain", statistics.median(seconds), LIMITS.get((net, who)))


def _gibbs(prior: Any, w: Tensor, precision: Tensor, generator: torch.Generator, scales: Any) -> Any:
    return native_gibbs_(prior, w, scales, precision, generator)


def _cavi(prior: Any, second: Tensor, precision: Tensor, scales: Any) -> Any:
    return native_cavi_(prior, second, scales, precision)


def sweeps(sizes: tuple[int, ...]) -> Iterator[Row]:
    if library.problem() is not None:
        return
    prior = rn.priors.R2D2()
    for size in sizes:
        g = torch.Generator().manual_seed(0)
        w, precision = torch.randn(size, generator=g).mul_(0.05), torch.empty(size)
        scales, second = prior.init_scales((size,), g), w.square()
        kinds: dict[str, Callable[[Any], Any]] = {
            "gibbs, native": partial(_gibbs, prior, w, precision, g),
            "cavi, native": partial(_cavi, prior, second, precision),
        }
        for who, sweep in kinds.items():
            times = []
            for _ in range(8):
                begun = time.process_time()
                scales = sweep(scales)
                times.append(time.process_time() - begun)
            seconds = statistics.median(times[1:])
            yield Row("sweep", f"{size:,} weights", who, 1e9 * seconds / size, "ns a weight", seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="7 rounds and no large layer")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the numbers")
    options = parser.parse_args()
    steady_memory()
    console, rows = wide_console(), []
    for number in [1] if options.quick else options.threads:
        torch.set_num_threads(number)
        label = "" if number == 1 else f", {number} threads"
        rounds, count = (7 if options.quick else 15), 8  # of 8 steps one sweeps the scales
        clock = time.process_time if number == 1 else time.perf_counter
        sections = [steps(rounds, count, clock)]
        sections += [sweeps(SIZES[: 2 if options.quick else 3])] if number == 1 else []
        for section in sections:
            found = [row._replace(what=row.what + label, limit=row.limit if number == 1 else None) for row in section]
            rows += found
            console.print(table_of(found))
    facts = {"machine": machine(options.threads), "level": library.use_level(-1) if not library.problem() else None}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "native-steps.json"
    write_json(path, {"rows": [row._asdict() for row in rows], **facts, **provenance({"quick": options.quick}, seed=0)})
    console.print(missed(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
