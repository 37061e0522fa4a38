"""Networks of every kind, each with inputs it takes and a likelihood it suits: what any model must work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net import likelihoods


class Case(NamedTuple):
    name: str
    net: Callable[[], nn.Module]
    x: Any
    y: Tensor
    likelihood: likelihoods.Likelihood


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.GroupNorm(1, 2), nn.ReLU(), nn.Conv2d(2, 2, 1))
        self.norm = nn.LayerNorm((2, 4, 4))
        self.head = nn.Linear(32, 3)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x + self.body(x)).flatten(1)) * self.temperature


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1]).squeeze(1)


class Tied(nn.Module):
    """An embedding whose weight is the decoder's too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.decoder = nn.Linear(4, 5)
        self.decoder.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.embedding(x).mean(1))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(2, 3), nn.Linear(4, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.left(a) * self.right(b)).sum(1, keepdim=True)


class SharedNorm(nn.Module):
    """One BatchNorm under two names: tied buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)
        self.norm = nn.BatchNorm1d(4)
        self.again = self.norm

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.again(torch.relu(self.norm(self.first(x)))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(8, 3)
    )


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _classes(count: int) -> Tensor:
    return torch.arange(12) % count


ZOO = [
    Case("mlp", mlp, _normal(12, 3), _normal(12), likelihoods.Gaussian()),
    Case("conv, batch norm, dropout", conv, _normal(12, 1, 4, 4), _classes(3), likelihoods.Categorical()),
    Case("residual, group and layer norm", Residual, _normal(12, 2, 4, 4), _classes(3), likelihoods.Categorical()),
    Case("transformer encoder", Encoder, _normal(12, 5, 4), _classes(2), likelihoods.Bernoulli()),
    Case("lstm", Recurrent, _normal(12, 5, 3), _normal(12), likelihoods.Gaussian()),
    Case("tied weights", Tied, _classes(5).view(6, 2).repeat(2, 1), _classes(5), likelihoods.Categorical()),
    Case("two inputs", TwoInputs, (_normal(12, 2), _normal(12, 4)), _classes(4), likelihoods.Poisson()),
    Case("shared batch norm", SharedNorm, _normal(12, 3), _normal(12, 1), likelihoods.Gaussian()),
]
