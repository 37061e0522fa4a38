"""What the modules of a network keep to themselves while its parameters are learnt: modes, padding rows.

mode       a part without parameters to learn keeps the mode, training or evaluation, in which it was given:
           running statistics of a frozen body in evaluation mode stand still, and its Dropout is off
padding    the row ``padding_idx`` of an embedding has no gradient and is no weight: it keeps its value
sparse     gradients of embeddings are dense here, whatever ``sparse`` says: a step moves every weight
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


class KeptRow(NamedTuple):
    """A row of an embedding that is not learnt."""

    name: str  # of the embedding's weight
    row: int


def parts_in_evaluation(net: nn.Module, frozen: Collection[str]) -> tuple[str, ...]:
    """Name the parts that stay in evaluation mode while the network is trained.

    These are the modules that were given in evaluation mode and lie in a part whose parameters are all frozen; and
    modules without parameters, such as Dropout, that were switched to it one by one, in a network in training mode.

    Args:
        net: The network.
        frozen: Names of the frozen parameters.

    Returns:
        The names of the modules.
    """
    names: list[str] = []
    for name, module, is_frozen in _walk(net, frozen):
        switched = net.training and not list(module.parameters())
        if not module.training and (is_frozen or switched):
            names.append(name)
    return tuple(names)


def train(net: nn.Module, in_evaluation: Collection[str]) -> None:
    """Set a network to training mode, but for some of its parts.

    Args:
        net: The network.
        in_evaluation: Names of the modules that stay in evaluation mode.
    """
    net.train()
    for name in in_evaluation:
        net.get_submodule(name).training = False


def warn_of_moving_statistics(net: nn.Module, frozen: Collection[str], in_evaluation: Collection[str]) -> None:
    """Warn if frozen parts have running statistics that training will change.

    Args:
        net: The network.
        frozen: Names of the frozen parameters.
        in_evaluation: Names of the modules that stay in evaluation mode.
    """
    moving = [
        name
        for name, module, is_frozen in _walk(net, frozen)
        if is_frozen and name not in in_evaluation and getattr(module, "running_mean", None) is not None
    ]
    if moving:
        which = f"{moving[0]!r} and {len(moving) - 1} more are" if len(moving) > 1 else f"{moving[0]!r} is"
        warnings.warn(
            f"net: frozen {which} in training mode, so running statistics will change: call .eval() on it before "
            "BayesianModel(net) to keep them",
            stacklevel=4,
        )


def _walk(net: nn.Module, frozen: Collection[str]) -> Iterator[tuple[str, nn.Module, bool]]:
    """Iterate over the modules with their names and whether they lie in a part whose parameters are all frozen."""
    frozen_identities = {id(parameter) for name, parameter in net.named_parameters() if name in frozen}
    frozen_parts: set[str] = set()
    for name, module in net.named_modules():
        own = [id(parameter) for parameter in module.parameters()]
        parent = name.rpartition(".")[0]
        inside = name != "" and parent in frozen_parts
        if inside or (own and all(one in frozen_identities for one in own)):
            frozen_parts.add(name)
        yield name, module, name in frozen_parts


def kept_rows(net: nn.Module, learnt: Collection[str]) -> tuple[KeptRow, ...]:
    """Find the rows of embeddings that their modules keep out of training.

    A weight that another module uses too, such as a decoder, is learnt there, padding row and all.

    Args:
        net: The network.
        learnt: Names of the parameters that are learnt.

    Returns:
        The rows.
    """
    owners: dict[int, list[nn.Module]] = {}
    for module in net.modules():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), []).append(module)
    rows = []
    for name in learnt:
        users = owners[id(net.get_parameter(name))]
        if all(isinstance(user, EMBEDDINGS) for user in users):
            padding = {user.padding_idx for user in users}
            if len(padding) == 1 and None not in padding:
                rows.append(KeptRow(name, int(str(padding.pop()))))
    return tuple(rows)


def keep_rows(tensor: Tensor, own: Tensor, row: int) -> Tensor:
    """Replace a row of an embedding by the network's own.

    Args:
        tensor: Weights of the embedding, (rows, width).
        own: The network's weights.
        row: Number of the row.

    Returns:
        A changed copy, without gradient in that row.
    """
    is_kept = torch.arange(len(own), device=tensor.device).unsqueeze(1) == row
    return torch.where(is_kept, own.detach(), tensor)


def make_dense(net: nn.Module) -> None:
    """Let the embeddings of a network have dense gradients, in place."""
    for module in net.modules():
        if isinstance(module, EMBEDDINGS):
            module.sparse = False
