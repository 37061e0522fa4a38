"""Time of a step of `rn.optim.SVGI` in a loop of one's own, as a share of that of `fit`'s engine, in one run.

    python benchmarks/optimiser_step.py --out results/benchmarks

Each network takes blocks of steps by each in turn, on the same batches; the figure is the median, over the blocks, of
the ratio of their CPU times. "weights" is the engine with the same estimator, "default" with the one that `fit` takes
by default: for small perceptrons a pass written out without autograd, which a loop of one's own cannot have.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.inference import SVGI

STEPS, BLOCKS, ROWS = 8, 61, 128  # a sweep a block


def networks() -> dict[str, tuple[nn.Module, Tensor]]:
    """Return networks and a batch of inputs of each."""
    torch.manual_seed(0)
    return {
        "perceptron 10-50-50-10": (rn.nets.mlp(10, [50, 50], 10), torch.randn(ROWS, 10)),
        "perceptron 784-400-400-10": (rn.nets.mlp(784, [400, 400], 10), torch.randn(ROWS, 784)),
        "LeNet": (rn.nets.LeNet(), torch.randn(ROWS, 3, 32, 32)),
        "SimpleCNN": (rn.nets.SimpleCNN(), torch.randn(ROWS, 3, 32, 32)),
    }


def engine_steps(
    net: nn.Module, x: Tensor, y: Tensor, estimator: Literal["weights"] | None, blocks: int
) -> Callable[[], None]:
    """Return a block of steps of the engine of `fit`."""
    model = rn.BayesianModel(net, rn.priors.R2D2(), rn.likelihoods.Categorical())
    trainer = SVGI(start="net", estimator=estimator).build(model, n=60000, steps=STEPS * (blocks + 1))
    generator = torch.Generator().manual_seed(0)
    state: Any = trainer.init(y, generator)

    def steps() -> None:
        nonlocal state
        for _ in range(STEPS):
            state, info = trainer.step(state, (x, y), generator)
            float(info.nll)

    return steps


def own_steps(net: nn.Module, x: Tensor, y: Tensor, blocks: int) -> Callable[[], None]:
    """Return a block of steps of a loop of one's own."""
    likelihood = rn.likelihoods.Categorical()
    opt = rn.optim.SVGI(net, rn.priors.R2D2(), n=60000, steps=STEPS * (blocks + 1), likelihood=likelihood)

    def steps() -> None:
        for _ in range(STEPS):
            opt.zero_grad()
            with opt.sampled_params():
                loss = opt.nll(net(x), y)
                loss.backward()
            opt.step()
            loss.item()

    return steps


def ratio_of(net: nn.Module, x: Tensor, blocks: int) -> dict[str, float]:
    """Return milliseconds a step of the three, and the ratios."""
    y = torch.randint(0, 10, (len(x),))
    contestants = {
        "weights": engine_steps(net, x, y, "weights", blocks),
        "default": engine_steps(net, x, y, None, blocks),
        "optimiser": own_steps(net, x, y, blocks),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(blocks + 1):
        for name, steps in contestants.items():
            start = time.process_time()
            steps()
            if number:  # the first warms up
                times[name].append(time.process_time() - start)
    cost = {name: 1000 * median(seconds) / STEPS for name, seconds in times.items()}
    ratios = {
        f"over {name}": median(own / other for own, other in zip(times["optimiser"], times[name], strict=True))
        for name in ("weights", "default")
    }
    count = sum(parameter.numel() for parameter in net.parameters())
    return {"weights in all": count, **{name: round(value, 3) for name, value in {**cost, **ratios}.items()}}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: ratio_of(net, x, arguments.blocks) for name, (net, x) in networks().items()}
    text = json.dumps({"rows": ROWS, "torch": torch.__version__, "milliseconds a step": found}, indent=2)
    print(text)
    if arguments.out is not None:
        (arguments.out / "optimiser-step.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
