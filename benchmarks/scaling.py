"""Steps per second of one fit on 1 and 2 processes of one thread each, and the bytes that a rank sends in a step.

    python benchmarks/scaling.py [--rounds 3] [--out results/benchmarks/scaling.json]

LeNet on 1 x 28 x 28 images, MLP 784-400-400-10 and MLP 784-2800-2800-10 of ten million weights, R2D2 by SVGI, with one
draw of the weights for all, on random images in batches of 512, over gloo and the loopback interface. Efficiency is
what two processes do beside twice what one does; a network with as much to compute in every step hides its messages
best. The processes of a round run alone or together. Efficiency is told by wall-clock time, which means nothing on a
busy machine, and by CPU time: what one process takes for a step, beside what two take together, messages included.

Sweeps: how ranks can come by the same scales of n weights. "replicated", as `fit` does, draws all on every rank by
generators of the same seed; "broadcast" draws on rank 0 and sends; "gathered" draws 1/k on every rank and sends those.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.ranks import ALONE, Ranks, RowSplit, ranks_of_world
from rank_processes import outputs_of_ranks

ROWS = 512
NETS: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "LeNet": (lambda: rn.nets.LeNet(1, 10, 28), (1, 28, 28), 30),
    "MLP": (lambda: rn.nets.mlp(784, [400, 400], 10), (784,), 60),
    "MLP of 1e7 weights": (lambda: rn.nets.mlp(784, [2800, 2800], 10), (784,), 6),
}
SIZES = (1_000_000, 10_000_000)


def timed_steps(name: str, ranks: Ranks) -> dict[str, Any]:
    """Return steps a second and bytes a step of a network on this rank."""
    build, shape, steps = NETS[name]
    generator = torch.Generator().manual_seed(0)
    rows = ROWS // ranks.size
    batch = torch.randn(rows, *shape, generator=generator), torch.randint(10, (rows,), generator=generator)
    torch.manual_seed(0)
    model = rn.BayesianModel(build(), likelihood=rn.likelihoods.Categorical())
    trainer = rn.inference.SVGI(estimator="weights").build(model, n=60_000, steps=10_000)
    if ranks.size > 1:
        trainer.split_rows(RowSplit(ranks, 0))
    draws = torch.Generator().manual_seed(1)
    state = trainer.init(batch[1], draws)
    for _ in range(8):  # one of them sweeps
        state, info = trainer.step(state, batch, draws)
    if ranks.size > 1:
        ranks.barrier()
    sent, begun, worked = ranks.sent, time.perf_counter(), time.process_time()
    for _ in range(steps):
        state, info = trainer.step(state, batch, draws)
        float(info.nll)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - worked
    found = {"steps per second": steps / seconds, "cpu seconds": cpu / steps, "bytes": (ranks.sent - sent) / steps}
    return {**found, "weights": model.size}


def timed_sweeps(size: int, ranks: Ranks) -> dict[str, float]:
    """Return the CPU seconds of a sweep of R2D2's scales on this rank by each rule."""
    prior, generator = rn.priors.R2D2(), torch.Generator().manual_seed(0)
    own = size // ranks.size
    found = {}
    for rule, count in (("replicated", size), ("broadcast", size), ("gathered", own)):
        weights = 0.05 * torch.randn(count, generator=generator)
        scales = prior.init_scales(weights.shape, generator, dtype=weights.dtype, device=weights.device)
        precision, every = torch.ones(count), []
        for turn in range(4):
            ranks.barrier()
            begun = time.process_time()
            if rule != "broadcast" or ranks.is_first:
                scales = prior.gibbs_(weights, scales, precision, generator)
            local = [tensor for tensor in (*scales, precision) if tensor.shape == weights.shape]
            if rule == "broadcast":
                ranks.share(local)
            if rule == "gathered":
                for tensor in local:
                    ranks.gathered(tensor)
            if turn:
                every.append(time.process_time() - begun)
        found[rule] = statistics.median(every)
    return found


def modelled_efficiency(seconds: float, sent: float, ranks: int, gigabits: float, latency: float = 20e-6) -> float:
    """Return the share of a step in which ranks compute, if they compute ``seconds`` and then send ``sent`` bytes.

    An all-reduce takes 2 (k - 1) / k bytes / bandwidth + 2 log2(k) latency; nothing is sent while they compute.

    >>> round(modelled_efficiency(0.01, 4e7, 8, 100.0), 2)
    0.64
    """
    message = 2 * (ranks - 1) / ranks * sent * 8 / (gigabits * 1e9) + 2 * math.log2(ranks) * latency
    return seconds / (seconds + message)


def rank_work() -> None:
    """Measure on this rank, and let rank 0 tell."""
    torch.set_num_threads(1)
    ranks = ranks_of_world(torch.device("cpu"))
    found: dict[str, Any] = {name: timed_steps(name, ranks) for name in NETS}
    if ranks is not ALONE:
        found["sweeps"] = {str(size): timed_sweeps(size, ranks) for size in SIZES}
    if ranks.is_first:
        print("FOUND" + json.dumps(found), flush=True)
    if ranks is not ALONE:
        ranks.barrier()


def world(size: int) -> dict[str, Any]:
    """Start processes that measure together; return what rank 0 tells."""
    outs = outputs_of_ranks(__file__, size)
    line = next(line for line in outs[0].splitlines() if line.startswith("FOUND"))
    return dict(json.loads(line[5:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/scaling.json"))
    parser.add_argument("--rank", action="store_true", help="measure on one of several processes")
    options = parser.parse_args()
    if options.rank:
        rank_work()
        return
    rounds = [(world(1), world(2)) for _ in range(options.rounds)]
    networks = {}
    for name in NETS:
        rates = [(one[name]["steps per second"], two[name]["steps per second"]) for one, two in rounds]
        networks[name] = {
            "weights": rounds[0][0][name]["weights"],
            "steps per second of one": statistics.median(one for one, _ in rates),
            "steps per second of two": statistics.median(two for _, two in rates),
            "efficiency": statistics.median(two / (2 * one) for one, two in rates),
            "efficiency by cpu": statistics.median(
                one[name]["cpu seconds"] / (2 * two[name]["cpu seconds"]) for one, two in rounds
            ),
            "bytes of a step": rounds[0][1][name]["bytes"],
            "cpu seconds of a step of one": statistics.median(one[name]["cpu seconds"] for one, _ in rounds),
            "cpu seconds of a step of each of two": statistics.median(two[name]["cpu seconds"] for _, two in rounds),
        }
    sweeps = {
        size: {
            rule: statistics.median(two["sweeps"][size][rule] for _, two in rounds)
            for rule in ("replicated", "broadcast", "gathered")
        }
        for size in map(str, SIZES)
    }
    found = {"rows": ROWS, "networks": networks, "sweeps": sweeps, "load": os.getloadavg()[0]}
    print(json.dumps(found, indent=2))
    write_json(options.out, {**found, **provenance({"rounds": options.rounds}, 0)})


if __name__ == "__main__":
    main()
