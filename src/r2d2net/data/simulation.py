"""Simulated regressions y = f(x) + e, e ~ N(0, noise^2), with the noiseless mean f(x) beside y.

Inputs are uniform(-5, 5), independent. The paper's text and its table of results disagree on two scenarios, so each
comes in a ``variant``; "table" is what the printed errors were computed on.

    name           inputs  f(x)                            noise: text, table
    1                   1  x^3                             3, 3
    2                   4  text: x1 x2 + x3 x4             3, 3
                           table: x1 (x2^2 + 1) + x3 x4
    3                1000  ReLU network, 1000-32-64-1      3, 2
    sparse-linear    1000  x'b, 10% of b non-zero          2, 2
    dense-linear     1000  x'b, 90% of b non-zero          2, 2

The text leaves open how many inputs scenario 3 has, how wide its "two-layer perceptron with randomly initialized
weights" is and how its weights are drawn. Here both variants have 1000 inputs and hidden layers of 32 and 64 units, and
weights and biases of a layer are uniform(-k, k), k = 1/sqrt(inputs), which is how torch initialises `nn.Linear`.
Non-zero coefficients of the linear scenarios are uniform(0, 1).

A seed fixes the true function and the rows. For a test set from the same function draw train and test rows in one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import torch
from torch import Generator, Tensor, nn

from r2d2net.errors import ParameterError, require, require_whole

Variant = Literal["text", "table"]

LOW, HIGH = -5.0, 5.0  # range of every input
WIDE = 1000  # inputs of the high-dimensional scenarios


class Simulated(NamedTuple):
    """A simulated data set; tensors are float32.

    Attributes:
        x: Inputs, shape (n, inputs).
        y: Noisy targets, shape (n,).
        mean: The true f(x), shape (n,): the error of a perfect prediction of y is noise^2.
        noise: Standard deviation of the noise.
        relevant: Which inputs f depends on, bool of shape (inputs,).
        coefficients: The true coefficients of a linear scenario, shape (inputs,).
        teacher: The true network of scenario 3.
    """

    x: Tensor
    y: Tensor
    mean: Tensor
    noise: float
    relevant: Tensor
    coefficients: Tensor | None = None
    teacher: nn.Sequential | None = None


class Truth(NamedTuple):
    """A scenario before rows are drawn: the true function, its relevant inputs and the noise."""

    f: Callable[[Tensor], Tensor]
    relevant: Tensor
    noise: float
    coefficients: Tensor | None = None
    teacher: nn.Sequential | None = None


def simulate(scenario: str | int, *, n: int = 10_000, seed: int, variant: Variant = "table") -> Simulated:
    """Draw a simulated data set. The result depends on the arguments alone; torch's global generator is not used.

    Args:
        scenario: One of 1, 2, 3, "sparse-linear" and "dense-linear"; see the table above.
        n: The number of rows.
        seed: The seed of the true function and of the rows.
        variant: Whether the scenario is that of the paper's text or that of its table of results.

    Returns:
        The inputs, the noisy targets and the truth.

    Raises:
        ParameterError: If an argument is out of range.

    >>> data = simulate("2", n=5, seed=0, variant="text")
    >>> data.x.shape, data.y.shape, data.noise
    (torch.Size([5, 4]), torch.Size([5]), 3.0)
    >>> bool((data.mean == data.x[:, 0] * data.x[:, 1] + data.x[:, 2] * data.x[:, 3]).all())
    True
    """
    name = str(scenario)
    if name not in SCENARIOS:
        fix = f"use one of {', '.join(SCENARIOS)}"
        raise ParameterError("is not known", argument="scenario", value=scenario, fix=fix)
    require(variant in get_args(Variant), "variant", variant, 'use "text" or "table"')
    require_whole("n", n)
    require_whole("seed", seed, least=0)
    generator = Generator().manual_seed(seed)
    truth = SCENARIOS[name](variant, generator)
    x = torch.empty(n, len(truth.relevant)).uniform_(LOW, HIGH, generator=generator)
    mean = truth.f(x)
    y = mean + truth.noise * torch.randn(n, generator=generator)
    return Simulated(x, y, mean, truth.noise, truth.relevant, truth.coefficients, truth.teacher)


def polynomial(variant: Variant, generator: Generator) -> Truth:
    """Scenario 1: y = x^3 + e."""
    return Truth(lambda x: x[:, 0] ** 3, torch.ones(1, dtype=torch.bool), 3.0)


def interactions(variant: Variant, generator: Generator) -> Truth:
    """Scenario 2: two products; "table" has a square in the first."""

    def f(x: Tensor) -> Tensor:
        x1, x2, x3, x4 = x.unbind(1)
        return x1 * (x2 if variant == "text" else x2**2 + 1) + x3 * x4

    return Truth(f, torch.ones(4, dtype=torch.bool), 3.0)


def network(variant: Variant, generator: Generator) -> Truth:
    """Scenario 3: a random ReLU network of all inputs."""
    widths = (WIDE, 32, 64, 1)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")  # no draw from the global generator
        bound = 1 / math.sqrt(inputs)
        with torch.no_grad():
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
        layers += [layer, nn.ReLU()]
    teacher = nn.Sequential(*layers[:-1]).requires_grad_(False)
    noise = 3.0 if variant == "text" else 2.0
    return Truth(lambda x: teacher(x)[:, 0], torch.ones(WIDE, dtype=torch.bool), noise, teacher=teacher)


def linear(share: float, generator: Generator) -> Truth:
    """x'b with ``share`` of the coefficients uniform(0, 1) at random places, the others zero."""
    relevant = torch.zeros(WIDE, dtype=torch.bool)
    relevant[torch.randperm(WIDE, generator=generator)[: round(share * WIDE)]] = True
    coefficients = torch.rand(WIDE, generator=generator) * relevant
    return Truth(lambda x: x @ coefficients, relevant, 2.0, coefficients=coefficients)


SCENARIOS: dict[str, Callable[[Variant, Generator], Truth]] = {
    "1": polynomial,
    "2": interactions,
    "3": network,
    "sparse-linear": lambda variant, generator: linear(0.1, generator),
    "dense-linear": lambda variant, generator: linear(0.9, generator),
}
