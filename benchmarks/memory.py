"""Peak memory of training, and of a sweep. Linux only: the kernel's own mark of the highest use is set back and read.

    python benchmarks/memory.py "R2D2 by SVGI" LeNet

The first argument is plain or one of `OURS`, the second layer, MLP, LeNet, resnet50 or resnet101. Each measurement has
a process of its own, in which a small network is trained first: code that is loaded then counts for nobody.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.paper.experiments.complexity import plain_training
from step_cost import NETS, batch

OURS: dict[str, Callable[..., Any]] = {"R2D2 by SVGI": rn.inference.SVGI, "R2D2 by CAVI": rn.inference.CAVI}
LAYER = 4000, 2500  # ten million weights
STEPS = 9  # one of them sweeps the scales


class Peak(NamedTuple):
    """Peak memory of training.

    Attributes:
        training: Bytes beyond the networks themselves.
        all: Bytes in total.
        weights: Number of weights of the network.
    """

    training: int
    all: int
    weights: int


def used() -> int:
    """Return the memory that this process uses now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Return the highest memory use of this process since `start`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def start() -> int:
    """Return free memory to the system, reset the peak, and return the memory used now, in bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return used()


def network_and_batch(case: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Build the network of a case and a batch for it."""
    if case == "layer":
        return nn.Linear(*LAYER, bias=False), torch.randn(4, LAYER[0]), torch.randint(LAYER[1], (4,))
    if case in NETS:
        make, shape = NETS[case]
        return make(), *batch(shape)
    net = rn.nets.build(case, channels=3, classes=10, size=32)
    return net, torch.randn(2, 3, 32, 32), torch.randint(10, (2,))


def train(who: str, net: nn.Module, x: Tensor, y: Tensor) -> Peak:
    """Take some training steps and measure their memory; ``all`` includes what the process used before."""
    model = None if who == "plain" else rn.BayesianModel(net, rn.priors.R2D2(), rn.likelihoods.Categorical())
    before = start()
    if model is None:
        step = plain_training(net, x, y)
        for _ in range(STEPS):
            step()
    else:
        g = torch.Generator().manual_seed(0)
        running = OURS[who]().build(model, n=1000, steps=100)
        state = running.init(y, g)
        for _ in range(STEPS):
            state, _ = running.step(state, (x, y), g)
    return Peak(peak() - before, peak(), sum(p.numel() for p in net.parameters()))


def training(who: str, case: str) -> Peak:
    """Measure the peak memory of training, without that of an idle process."""
    torch.set_num_threads(1)
    train(who, nn.Linear(3, 2), torch.randn(4, 3), torch.randint(2, (4,)))
    empty = start()
    measured = train(who, *network_and_batch(case))
    return measured._replace(all=measured.all - empty)


if __name__ == "__main__":
    print(json.dumps(training(*sys.argv[1:])))
