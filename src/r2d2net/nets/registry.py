"""Networks by name: ``build("lenet", channels=1, classes=10, size=28)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from r2d2net.errors import ParameterError, require
from r2d2net.nets.alexnet import AlexNet
from r2d2net.nets.lenet import LeNet
from r2d2net.nets.perceptron import mlp, paper_mlp
from r2d2net.nets.resnet import resnet50, resnet101
from r2d2net.nets.simple_cnn import SimpleCNN
from r2d2net.nets.vgg import VGG
from r2d2net.nets.vit import ViT

NETS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "paper_mlp": paper_mlp,
    "simple_cnn": SimpleCNN,
    "lenet": LeNet,
    "alexnet": AlexNet,
    "resnet50": resnet50,
    "resnet101": resnet101,
    "vgg": VGG,
    "vit": ViT,
}


def build(name: str, **options: Any) -> nn.Module:
    """A fresh network by name; the options are the network's arguments.

    >>> build("mlp", inputs=2, hidden=[3], outputs=1)
    MLP(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
      (2): Linear(in_features=3, out_features=1, bias=True)
    )
    """
    require(name in NETS, "name", name, f"use one of {', '.join(NETS)}")
    signature = inspect.signature(NETS[name])
    try:
        signature.bind(**options)
    except TypeError as error:
        arguments = ", ".join(signature.parameters)
        raise ParameterError(f"{name} does not take these options ({error}): its arguments are {arguments}") from error
    return NETS[name](**options)
