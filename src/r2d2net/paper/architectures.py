"""The networks' parameter counts beside the paper's table of architectures.

A Bayesian network learns a mean and a deviation of every weight. The paper counts both for every parameter; here the
parameters of normalisation layers are deterministic and count once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from r2d2net.nets.by_name import build

NORMALIZATION = (nn.BatchNorm2d, nn.LayerNorm)


class Architecture(NamedTuple):
    """One row of the table of architectures.

    Attributes:
        name: Name of the network.
        setting: Arguments with which the network was built.
        parameters: Number of parameters of the plain network.
        bayesian: Number of means and standard deviations, plus the deterministic parameters.
        paper: The paper's counts, plain / Bayesian.
        word: The reason why the counts differ.
    """

    name: str
    setting: str
    parameters: int
    bayesian: int
    paper: str
    word: str


class _Entry(NamedTuple):
    name: str
    options: dict[str, Any]
    paper: str
    word: str


_ENTRIES = (
    _Entry("mlp", {"inputs": 1, "hidden": [50], "outputs": 1}, "-", ""),
    _Entry("paper_mlp", {"inputs": 1, "layers": 3}, "-", "the paper's MLP(3); it gives no count"),
    _Entry("simple_cnn", {"channels": 1, "size": 28}, "-", "no count in the paper"),
    _Entry("lenet", {"channels": 1, "size": 28}, "62K / 124K", "agrees (MNIST, padded to 32 x 32)"),
    _Entry("lenet", {}, "62K / 124K", "agrees"),
    _Entry("lenet", {"classes": 100}, "62K / 124K", "90 more classes; the paper gives one count"),
    _Entry("alexnet", {}, "2.8M / 5.6M", "the layers of the authors' code give 2.5M"),
    _Entry("alexnet", {"classes": 200, "size": 64}, "2.8M / 5.6M", "as above, for TinyImageNet"),
    _Entry("resnet50", {"classes": 1000, "size": 224, "stem": "large"}, "25.6M / 51.2M", "agrees: ImageNet's"),
    _Entry("resnet50", {}, "25.6M / 51.2M", "the paper's is that of 1000 classes; CIFAR-10 has 10"),
    _Entry("resnet101", {"classes": 1000, "size": 224, "stem": "large"}, "44.5M / 89M", "agrees: ImageNet's"),
    _Entry("resnet101", {}, "44.5M / 89M", "the paper's is that of 1000 classes; CIFAR-10 has 10"),
    _Entry("vgg", {}, "-", "not in the paper"),
    _Entry("vit", {}, "-", "not in the paper"),
)


def architectures() -> tuple[Architecture, ...]:
    """Count the parameters of every network, beside the paper's counts.

    Returns:
        One row for each network and setting, counted from the network itself.

    Example:
        >>> architectures()[0].parameters
        151
    """
    return tuple(_count(entry) for entry in _ENTRIES)


def architecture_table() -> str:
    """Format `architectures` as the Markdown table of docs/networks.md.

    Returns:
        The table's lines, joined by newlines.
    """
    lines = [
        "| network | arguments | parameters | Bayesian | paper | a word |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.setting} | {row.parameters:,} | {row.bayesian:,} | {row.paper} | {row.word} |"
        for row in architectures()
    ]
    return "\n".join(lines)


def _count(entry: _Entry) -> Architecture:
    with torch.device("meta"):  # shapes without numbers
        net = build(entry.name, **entry.options)
    total = sum(p.numel() for p in net.parameters())
    once = sum(p.numel() for m in net.modules() if isinstance(m, NORMALIZATION) for p in m.parameters(recurse=False))
    setting = ", ".join(f"{name}={value}" for name, value in entry.options.items()) or "defaults"
    return Architecture(entry.name, setting, total, 2 * (total - once) + once, entry.paper, entry.word)
