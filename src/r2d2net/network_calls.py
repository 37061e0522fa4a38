"""How a network is called: wrappers taken off, inputs by name, and which of its outputs counts.

inputs   one tensor; a tuple, given by position; or by name, as tokenizers and their data loaders give them
output   a tensor; else the field ``logits`` of a dict or dataclass, the only tensor of it, or the first of a tuple,
         unless the user names another
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from r2d2net.errors import Argument, DataError, ParameterError, Shown, Value, require

LOGITS = "logits"
LABELS = ("labels", "label")  # where dicts of data keep their targets
Output = str | int | Callable[[Any], Tensor] | None
CHECKPOINTING = "torch.utils.checkpoint"  # in torch's message of parts that are computed again otherwise
WRAPPERS = ("DataParallel", "DistributedDataParallel", "OptimizedModule")


def unwrapped(net: nn.Module) -> nn.Module:
    """Take off wrappers that serve a loop of one's own, and say so.

    Args:
        net: A network, perhaps inside DataParallel, DistributedDataParallel or `torch.compile`.

    Returns:
        The network inside.
    """
    inside = net
    while type(inside).__name__ in WRAPPERS and type(inside).__module__.startswith("torch."):
        inside = inside._modules.get("module") or inside._modules["_orig_mod"]  # type: ignore[assignment]
    if inside is not net:
        what = f"net is wrapped in {type(net).__name__}: the {type(inside).__name__} inside is fitted"
        warnings.warn(f"{what}, and names of parameters are those inside", stacklevel=3)
    return inside


@contextmanager
def refusing_checkpointing(algorithm: str) -> Iterator[None]:
    """Convert the failure of gradient checkpointing, in algorithms that cannot have it, to an error of one line."""
    try:
        yield
    except RuntimeError as error:
        if CHECKPOINTING not in str(error):
            raise
        problem = ("uses gradient checkpointing, which ", Value(Shown(algorithm)), " cannot have")
        raise ParameterError(problem, argument="net", fix="switch it off, or use SVGI, SGLD or MAP") from error


def require_names(inputs: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check names of inputs; a `ParameterError` unless they are texts that differ."""
    if inputs is None:
        return None
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    fits = len(names) > 0 and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    require(
        fits, "inputs", inputs, "give the names of the network's arguments, such as ('input_ids', 'attention_mask')"
    )
    return names


def require_output(output: Output) -> Output:
    """Check which output counts; a `ParameterError` unless it is a name, a number, a function or None."""
    known = output is None or callable(output) or (isinstance(output, (str, int)) and not isinstance(output, bool))
    require(known, "output", output, "give the name of a field, its number, or a function of all that net returns")
    return output


def in_order(x: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return the inputs of a dict in the order of their names; further entries are left out.

    Args:
        x: Inputs by name.
        names: The names.

    Returns:
        The inputs.

    Raises:
        DataError: If one is missing.
    """
    missing = [name for name in names if name not in x]
    if missing:
        held = Shown(", ".join(map(str, x)))
        raise DataError(("has entries ", Value(held), f" and no {missing[0]!r}"), argument="x", fix="give it")
    return tuple(x[name] for name in names)


def pick(output: Any, which: Output) -> Tensor:
    """Return the tensor among a network's outputs that counts.

    Args:
        output: All that the network returned.
        which: Name, number or function; None for the usual one.

    Returns:
        The tensor.

    Raises:
        ParameterError: If there is no such tensor.
    """
    found: Any = output
    if which is not None and callable(which):
        found = which(output)
    elif which is not None:
        found = _field(output, which)
    elif not isinstance(output, Tensor):
        found = _usual(output)
    if isinstance(found, Tensor):
        return found
    if which is not None:
        problem = f": net returns {type(output).__name__}, of which this is no tensor"
        raise ParameterError(problem, argument="output", value=_shown(which), fix=_offer(output))
    raise ParameterError(("returns ", Value(type(output))), argument="net", fix=_offer(output))


def _field(output: Any, which: Any) -> Any:
    if isinstance(which, str):
        named = _named(output)
        return named.get(which) if named else getattr(output, which, None)
    values = list(_named(output).values()) if isinstance(output, Mapping) else output
    fits = isinstance(values, (tuple, list)) and -len(values) <= which < len(values)
    return values[which] if fits else None


def _usual(output: Any) -> Any:
    named = _named(output)
    if LOGITS in named:
        return named[LOGITS]
    if named:
        tensors = [value for value in named.values() if isinstance(value, Tensor)]
        return tensors[0] if len(tensors) == 1 else None
    return output[0] if isinstance(output, (tuple, list)) and output else None


def _named(output: Any) -> dict[str, Any]:
    """Return the fields of a dict, a dataclass or a named tuple by name; none of anything else."""
    if isinstance(output, Mapping):
        return dict(output)
    if is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in fields(output)}
    return dict(output._asdict()) if hasattr(output, "_asdict") else {}


def _shown(which: Any) -> Any:
    return Shown(getattr(which, "__name__", repr(which))) if callable(which) else which


def _offer(output: Any) -> Any:
    named = [name for name, value in _named(output).items() if isinstance(value, Tensor)]
    if named:
        return ("give BayesianModel ", Argument("output", named[0]), f", or another of {', '.join(named)}")
    return "wrap it in a module that returns one tensor"


def split_labels(batch: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Split a dict of data into inputs and targets.

    Args:
        batch: Inputs by name, with targets under "labels" or "label".

    Returns:
        The inputs, and the targets; None where there are none.
    """
    label = next((name for name in LABELS if name in batch), None)
    return {name: value for name, value in batch.items() if name != label}, None if label is None else batch[label]
