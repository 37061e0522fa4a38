"""Table "complexity": how many numbers each design learns and stores, and what a step of it costs.

The paper counts the parameters of four networks, plain and Bayesian. Beside these counts the table has, for every
design on LeNet and AlexNet for CIFAR-10, the parameters that are learnt, the scale variables of the prior, all floats
of the training state (including those of the optimiser and a sampler's stored draws), and the time of a step. The time
is the only result that is not a function of a cell's settings. It is the CPU time of the process on one thread, so that
other processes do not count, given beside that of torch's own training of the same network, in alternating rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net import nets
from r2d2net.inference.base import flatten
from r2d2net.likelihoods import Categorical
from r2d2net.model import BayesianModel
from r2d2net.paper.architectures import architectures
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.table_rows import method_of, prior_of

ROWS = (
    "freq",
    "mcd",
    "de",
    "gauss-svi",
    "gauss-mfvi",
    "gauss-radial",
    "gauss-sgld",
    "hs-svi",
    "sas-svi",
    "r2d2-svgi",
)
IMAGES, CLASSES = 50_000, 10
SWEEP = 8  # steps between two refreshes of a prior's scales: rounds are of whole ones
SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"nets": ["lenet"], "rounds": 1, "batch_size": 32},
    "machine": {"nets": ["lenet", "alexnet"], "rounds": 5, "batch_size": 128},
    "paper": {"nets": ["lenet", "alexnet"], "rounds": 9, "batch_size": 1024},
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return one cell for the counts of all networks, and every row on every network; replicates would be equal."""
    size = SIZES[scale]
    common = {"rounds": size["rounds"], "batch_size": size["batch_size"], "reference": "torch", "seed": 0}
    rows = [
        Cell(f"{row}-{net}", {"kind": "row", "row": row, "net": net, **common}) for net in size["nets"] for row in ROWS
    ]
    return [Cell("architectures", {"kind": "architectures", "seed": 0}), *rows]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Count the parameters of all networks, or those of a row, whose step is also timed."""
    if settings["kind"] == "architectures":
        return {"architectures": [architecture._asdict() for architecture in architectures()]}
    model = BayesianModel(nets.build(settings["net"]), prior_of(settings["row"]), Categorical())
    method = method_of(settings["row"])
    running = method.build(model, n=IMAGES, steps=10 * IMAGES // settings["batch_size"])
    generator = torch.Generator().manual_seed(settings["seed"])
    batch = (
        torch.randn(settings["batch_size"], 3, 32, 32, generator=generator),
        torch.randint(CLASSES, (settings["batch_size"],), generator=generator),
    )
    state = running.init(batch[1], generator)
    floats = {name: tensor.numel() for name, tensor in flatten(state).items()}

    def step() -> None:
        nonlocal state
        state, _ = running.step(state, batch, generator)

    plain = plain_training(nets.build(settings["net"]), *batch)
    rounds = [(timed(step), timed(plain)) for _ in range(settings["rounds"] + 1)][1:]  # the first warms everything up
    return {
        "weights": model.size + model.fixed_size,
        "runs": method.runs,
        "learnt": sum(floats.get(name, 0) for name in ("mean", "rho", "weights", "fixed")) * method.runs,
        "scales": sum(count for name, count in floats.items() if name.startswith("scales/")) * method.runs,
        "state": sum(floats.values()) * method.runs,
        "step_seconds": median(ours for ours, _ in rounds) * method.runs,
        "ratio": median(ours / theirs for ours, theirs in rounds) * method.runs,
    }


def plain_training(net: nn.Module, x: Tensor, y: Tensor, *, fused: bool | None = None) -> Callable[[], float]:
    """Return torch's own training step: forward, cross-entropy, backward, Adam, the loss read as a number.

    Args:
        net: The network.
        x: Images of the batch.
        y: Their classes.
        fused: Whether Adam is fused, as torch has it.

    Returns:
        A function that takes one step and returns the loss.
    """
    optimizer = torch.optim.Adam(net.parameters(), fused=fused)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def timed(step: Callable[[], object]) -> float:
    """Measure the mean seconds of a step, over as many steps as there are between two refreshes of the scales."""
    start = time.process_time()
    for _ in range(SWEEP):
        step()
    return (time.process_time() - start) / SWEEP


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    if scale == "paper":
        return ""
    return f"steps are timed with batches of {SIZES[scale]['batch_size']} images in place of 1024, on a CPU"


ARTEFACT = Artefact(
    name="complexity",
    title=TITLES["complexity"],
    cells=cells,
    compute=compute,
    reduced=reduced,
)
