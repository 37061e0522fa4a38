"""What a step of every algorithm costs, as a ratio to a step of plain training in the same run.

    python benchmarks/step_cost.py  [--rounds 15] [--steps 32] [--only SGLD SGHMC] [--peers] [--out out/bench]

Plain training is torch's own: forward, cross-entropy, backward, Adam, the loss read as a number. MLP 784-400-400-10 and
LeNet, runs of 20 epochs of 60,000 rows in batches of 128, one thread, default settings, Gaussian priors, and R2D2 where
the algorithm takes it. Every round times all contestants in turn, so that a busy moment of the machine hits them alike:
a ratio is that of one round, and the median over the rounds is reported.

A member of an ensemble, or a chain, counts as one run. HMC has no step of a batch and is left out. Samplers
are timed twice: in the burn-in, which also learns the preconditioner, and while they keep draws.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import r2d2net as rn
from peers import PEERS
from r2d2net.errors import ParameterError
from r2d2net.files import write_json
from r2d2net.inference import ALGORITHMS
from r2d2net.paper.experiments.complexity import plain_training
from r2d2net.provenance import provenance

ROWS, N, EPOCHS = 128, 60_000, 20
LIMITS = {("SGLD", "MLP"): 1.3, ("SGHMC", "MLP"): 1.5}
PRIORS: dict[str, Callable[[], Any]] = {"Gaussian": rn.priors.Gaussian, "R2D2": rn.priors.R2D2}
NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda: rn.nets.mlp(784, [400, 400], 10), (784,)),
    "LeNet": (lambda: rn.nets.LeNet(3, 10, 32), (3, 32, 32)),
}
Step = Callable[[], object]
Name = TypeVar("Name")


def batch(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, *shape, generator=g), torch.randint(10, (ROWS,), generator=g)


def bayesian(method: Any, net: nn.Module, prior: Any, x: Tensor, y: Tensor, phase: float, timed: int) -> Step:
    """Steps of an algorithm from the share ``phase`` of a run on."""
    model = rn.BayesianModel(net, prior, rn.likelihoods.Categorical())
    steps = EPOCHS * N // ROWS
    running = method.build(model, n=N, steps=steps)
    g = torch.Generator().manual_seed(0)
    state = running.init(y, g)
    for at in (0, steps // 2 - 2):  # over the start of the run and the end of a burn-in, where much is prepared
        state.step.fill_(at)
        for _ in range(5):
            state, _ = running.step(state, (x, y), g)
    first = int(phase * steps)
    last = min(first + timed, steps) - 1

    def step() -> float:
        nonlocal state
        if int(state.step) > last or int(state.step) < first:
            state.step.fill_(first)  # the clock of the run is set to the phase, and back where it would end
        state, info = running.step(state, (x, y), g)
        return float(info.nll)

    return step


def contestants(name: str, only: list[str], timed: int, peers: bool) -> dict[tuple[str, str], Step]:
    """Build the training step of each (algorithm, prior); combinations that the library refuses are left out."""
    make, shape = NETS[name]
    x, y = batch(shape)
    steps: dict[tuple[str, str], Step] = {("plain training", ""): plain_training(make(), x, y)}
    for algorithm in ALGORITHMS:
        method: Any = getattr(rn.inference, algorithm)()
        if method.full_batch or (only and algorithm not in only):
            continue
        phases = {"": 0.5} if method.optimizes else {", burn-in": 0.1, "": 0.6}
        for prior, kind in PRIORS.items():
            for phase, share in phases.items():
                try:
                    steps[algorithm + phase, prior] = bayesian(method, make(), kind(), x, y, share, timed)
                except ParameterError:
                    continue
    if peers:
        steps |= {(peer, "Gaussian"): build(make(), x, y, N).step for peer, build in PEERS.items()}
    return steps


def turns(
    contestants: dict[Name, Step], rounds: int, count: int, clock: Callable[[], float]
) -> dict[Name, list[float]]:
    """Time calls in rounds, the contestants taking turns; return seconds a call, without the first round."""
    times: dict[Name, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, call in contestants.items():
            start = clock()
            for _ in range(count):
                call()
            if turn:
                times[name].append((clock() - start) / count)
    return times


def contest(steps: dict[tuple[str, str], Step], rounds: int, count: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Return each contestant's median seconds a step and median ratio to plain training.

    The seconds are processor time of this process, which has one thread; other processes do not count.
    """
    times = turns(steps, rounds, count, time.process_time)
    floor = times["plain training", ""]
    return {
        name: (statistics.median(values), statistics.median(a / b for a, b in zip(values, floor, strict=True)))
        for name, values in times.items()
    }


def steady_memory() -> None:
    """Make glibc keep freed memory; otherwise it returns large tensors to the system unpredictably.

    A freed block of 31 MB raises glibc's adaptive limits to their maximum. Otherwise fresh pages cost as much as 30% of
    a step, in plain training as in the others.
    """
    del [torch.empty(31 << 20, dtype=torch.uint8)][:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds (default 15)")
    parser.add_argument("--steps", type=int, default=32, help="steps of a round: refreshes are up to 32 apart")
    parser.add_argument("--only", nargs="+", default=[], choices=ALGORITHMS, help="these algorithms alone")
    parser.add_argument("--peers", action="store_true", help="other libraries too: see peers.py")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the numbers")
    options = parser.parse_args()

    torch.set_num_threads(1)
    steady_memory()
    console, rows, over = Console(), [], []
    for net in NETS:
        steps = contestants(net, options.only, options.rounds * options.steps, options.peers)
        times = contest(steps, options.rounds, options.steps)
        table = Table("algorithm", "prior", "ms a step", "ratio to plain training", "limit", title=net)
        for (algorithm, prior), (seconds, ratio) in times.items():
            limit = LIMITS.get((algorithm, net)) if prior == "Gaussian" else None
            table.add_row(algorithm, prior, f"{1e3 * seconds:.2f}", f"{ratio:.2f}", "" if limit is None else f"{limit}")
            rows.append({"net": net, "algorithm": algorithm, "prior": prior, "seconds": seconds, "ratio": ratio})
            if limit is not None and ratio > limit:
                over.append(f"{algorithm} on {net}")
        console.print(table)
    settings = {"rows": ROWS, "threads": 1, "rounds": options.rounds, "steps": options.steps}
    options.out.mkdir(parents=True, exist_ok=True)
    limits = {" on ".join(key): value for key, value in LIMITS.items()}
    write_json(options.out / "step_cost.json", {"rows": rows, "limits": limits, **provenance(settings, seed=0)})
    if over:
        console.print(f"over the limit: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
