"""What each parameter of a network is to its module, by which it gets a prior.

    norm       parameters of a normalisation layer                                     ``norm``
    direction  v of weight normalisation, w = g v / |v|: its length has no effect      deterministic
    length     g of weight normalisation: the length of a unit's weights               ``prior``
    token      two or more dimensions, the first of 1, outside layers of torch:
               class tokens, position embeddings                                       ``prior``
    weight     all other tensors of two or more dimensions                             ``prior``
    bias       vectors called bias                                                     ``bias``
    scale      other vectors and numbers: factors, temperatures                        ``bias``

A layer is one of normalisation by what it does: its parameters are vectors, and four times the inputs have the same
outputs. Where it cannot be tried on a table, its class must have "norm" in its name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

NORMALIZATION = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
)
NORM, DIRECTION, LENGTH, TOKEN, WEIGHT, BIAS, SCALE = "norm", "direction", "length", "token", "weight", "bias", "scale"
TENSORS = (LENGTH, TOKEN, WEIGHT)  # roles that get the prior of weight tensors
FACTOR, SAME = 4.0, 0.01  # of the trial of a normalisation layer: change of outputs, as a share of their deviation
ROWS = 5


def roles_of(net: nn.Module) -> dict[str, str]:
    """Tell what each parameter of a network is.

    Args:
        net: The network.

    Returns:
        The role of each parameter by name.
    """
    roles: dict[str, str] = {}
    parameters = dict(net.named_parameters())
    names = {id(parameter): name for name, parameter in parameters.items()}
    parts = weight_norms(net)
    for module in net.modules():
        is_norm = is_normalization(module)
        for key, parameter in module.named_parameters(recurse=False):
            name = names[id(parameter)]
            role = parts.get(id(parameter)) or (NORM if is_norm else _role(module, key, parameter))
            roles.setdefault(name, SCALE if role == LENGTH and parameter.dim() < 2 else role)
    return {name: roles[name] for name in parameters}


def _role(module: nn.Module, key: str, parameter: Tensor) -> str:
    if parameter.dim() > 1:
        is_layer = type(module).__module__.startswith("torch.nn.")
        return TOKEN if parameter.shape[0] == 1 and not is_layer else WEIGHT
    return BIAS if "bias" in key else SCALE


def is_normalization(module: nn.Module) -> bool:
    """Tell whether a module is a normalisation layer.

    Args:
        module: The module.

    Returns:
        Whether it is one of torch's, or has vectors alone for parameters and outputs that do not grow with its inputs.
    """
    if isinstance(module, NORMALIZATION):
        return True
    own = dict(module.named_parameters(recurse=False))
    plain = not own or any(parameter.dim() != 1 for parameter in own.values()) or any(True for _ in module.children())
    if plain or type(module).__module__.startswith("torch.nn."):
        return False
    forgets = _forgets_size(module, own)
    return "norm" in type(module).__name__.lower() if forgets is None else forgets


def _forgets_size(module: nn.Module, own: Mapping[str, Tensor]) -> bool | None:
    """Whether inputs that are multiplied by a number have the same outputs; None if the layer takes no table."""
    parameter = next(iter(own.values()))
    x = torch.randn(ROWS, parameter.numel(), generator=torch.Generator().manual_seed(0)).to(parameter)
    try:
        with torch.no_grad():
            tried = copied(module).eval()
            tried.requires_grad_(False)
            for one in tried.parameters():
                one.fill_(1.0)  # a trained layer may be close to zero
            outputs = tried(x), tried(FACTOR * x)
    except Exception:  # the user's own code may raise anything on inputs that it was not made for
        return None
    if not all(isinstance(output, Tensor) and output.shape == x.shape for output in outputs):
        return None
    small, large = (output.double() for output in outputs)
    spread = float(small.std())
    return spread > 0 and float((large - small).abs().max()) < SAME * spread


def weight_norms(net: nn.Module) -> dict[int, str]:
    """Find the two parameters of each weight normalisation, of torch's old function and of its new one.

    Args:
        net: The network.

    Returns:
        The role of each by its identity.
    """
    roles: dict[int, str] = {}
    for module in net.modules():
        for hook in module._forward_pre_hooks.values():
            if type(hook).__name__ == "WeightNorm" and hasattr(hook, "name"):
                roles[id(getattr(module, f"{hook.name}_g"))] = LENGTH
                roles[id(getattr(module, f"{hook.name}_v"))] = DIRECTION
        if type(module).__name__ == "ParametrizationList" and any(
            type(part).__name__ == "_WeightNorm" for part in module.children()
        ):
            roles[id(module.original0)] = LENGTH
            roles[id(module.original1)] = DIRECTION
    return roles


def copied(net: nn.Module) -> nn.Module:
    """Copy a module deeply, whatever its last pass left in it.

    Weights that hooks compute, as those of the old ``weight_norm``, are results of a graph, which Python cannot copy:
    the copy has their values.

    Args:
        net: The module.

    Returns:
        The copy.
    """
    return copy.deepcopy(net, results_of_graphs(net))


def results_of_graphs(net: nn.Module) -> dict[int, object]:
    """Return the memo by which Python can copy a network: values of what passes left in its modules, by identity."""
    left = [value for module in net.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    return {id(value): value.detach().clone() for value in left if not value.is_leaf}
