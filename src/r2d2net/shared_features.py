"""Parts of a network whose outputs all draws share, such as a frozen backbone: computed once for a block of rows.

The first draw's pass is watched operation by operation: what is computed from the drawn weights depends on the draw,
all else does not. A submodule without Bayesian parameters whose inputs and outputs do not depend on the draw keeps its
output, and returns it in the passes of the other draws as long as

    its inputs                  are those of the call with the same number in the first pass,
    parameters and buffers      are those of the first pass,

by their place in memory or by their values. So the result is bitwise that of computing it again. Whatever cannot be
told from outside is left alone: a submodule that draws random numbers, changes its inputs or its buffers, has hooks, or
returns anything but tensors and plain values; and all that is called after a value that depends on the draw became a
number of Python, which may be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from r2d2net.model import BayesianModel

PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device)
OPAQUE = (torch.jit.ScriptModule, nn.DataParallel)  # their submodules are not called as Python code, or by threads


@contextmanager
def remembering(model: BayesianModel[Any], drawn: Tensor, most: int) -> Iterator[Callable[[], Any]]:
    """Let submodules without Bayesian parameters keep their outputs.

    Args:
        model: The model.
        drawn: Draws of the Bayesian weights; networks of the passes have views of it.
        most: Largest number of elements of what is kept.

    Yields:
        A function that returns the context of the next pass.
    """
    watch = Dependent(drawn)
    budget = Budget(most)
    memories = [Memory(module, watch, budget) for module in submodules_to_share(model)]
    for memory in memories:
        vars(memory.module)["forward"] = memory
    passes = 0

    def next_pass() -> Any:
        nonlocal passes
        passes += 1
        for memory in memories:
            memory.calls = 0
        return watch if passes == 1 else nullcontext()

    try:
        yield next_pass
    finally:
        for memory in memories:
            del vars(memory.module)["forward"]  # that of the class shows again


def submodules_to_share(model: BayesianModel[Any]) -> list[nn.Module]:
    """List submodules without Bayesian parameters.

    Args:
        model: The model.

    Returns:
        The submodules that have parameters, and no hooks in them.
    """
    bayesian = {id(model.net.get_parameter(slot.name)) for slot in model.bayesian}
    return list(_below(model.net, bayesian, set()))


def _below(net: nn.Module, bayesian: set[int], seen: set[int]) -> Iterator[nn.Module]:
    compiled = "_orig_mod" in net._modules
    if isinstance(net, OPAQUE) or compiled or id(net) in seen:
        return
    seen.add(id(net))
    own = [id(parameter) for parameter in net.parameters()]
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    if own and not hooked and bayesian.isdisjoint(own) and "forward" not in vars(net):
        yield net
    for child in net.children():
        yield from _below(child, bayesian, seen)


class Dependent(TorchDispatchMode):
    """What is computed from the drawn weights, by its place in memory.

    Args:
        drawn: Draws of the Bayesian weights.
    """

    def __init__(self, drawn: Tensor) -> None:
        super().__init__()
        self.places = {_place(drawn)}
        self.is_lost = False  # whether a number of Python depends on the draw

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _tensors(tree_leaves((args, kwargs)))
        depends = self.has(given)
        result = func(*args, **(kwargs or {}))
        places = {_place(tensor) for tensor in _tensors(tree_leaves(result))}
        if depends:
            self.is_lost |= any(isinstance(leaf, (int, float, complex)) for leaf in tree_leaves(result))
            changed = {_place(tensor) for tensor in given} if func._schema.is_mutable else set()
            self.places |= places | changed
        else:
            self.places -= places  # memory that is used again
        return result

    def has(self, tensors: Iterable[Tensor]) -> bool:
        """Return whether one of the tensors depends on the draw."""
        return any(_place(tensor) in self.places for tensor in tensors)


class Budget:
    """Number of elements that may still be kept, and whether a call is under way whose output is to be kept."""

    def __init__(self, most: int) -> None:
        self.left, self.inside = most, False


class Kept(NamedTuple):
    """One call of a submodule, with the versions of its tensors, which an in-place change would raise."""

    arguments: list[Any]
    argument_spec: TreeSpec
    own: list[Tensor]
    output: list[Any]
    output_spec: TreeSpec
    versions: list[int]


class Memory:
    """The forward method of a submodule, which remembers its outputs.

    Args:
        module: The submodule.
        watch: What depends on the draw; active in the first pass.
        budget: The number of elements that all may keep.
    """

    def __init__(self, module: nn.Module, watch: Dependent, budget: Budget) -> None:
        self.module, self.watch, self.budget, self.calls = module, watch, budget, 0
        self.compute: Callable[..., Any] = module.forward
        self.kept: dict[int, Kept] = {}  # by the number of the call in a pass

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.budget.inside:
            return self.compute(*arguments, **named)
        number, self.calls = self.calls, self.calls + 1
        leaves, spec = tree_flatten((arguments, named))
        if torch.utils._python_dispatch._get_current_dispatch_mode() is self.watch:
            return self._first(number, leaves, spec, arguments, named)
        kept = self.kept.get(number)
        if kept is not None and self._is_repeated(kept, leaves, spec):
            return tree_unflatten([_own_copy(leaf) for leaf in kept.output], kept.output_spec)
        return self.compute(*arguments, **named)

    def _first(self, number: int, leaves: list[Any], spec: TreeSpec, arguments: Any, named: Any) -> Any:
        """Compute the output in the first pass, and keep it if all draws share it."""
        own = _tensors_of(self.module)
        if self.watch.has(_tensors(leaves)) or not all(isinstance(leaf, (Tensor, *PLAIN)) for leaf in leaves):
            return self.compute(*arguments, **named)
        before, random = _versions([*_tensors(leaves), *own]), _random_states()
        self.budget.inside = True
        try:
            output = self.compute(*arguments, **named)
        finally:
            self.budget.inside = False
        given, output_spec = tree_flatten(output)
        if self.watch.is_lost or self.watch.has(_tensors(given)):
            return output
        if not all(isinstance(leaf, (Tensor, *PLAIN)) for leaf in given):
            return output
        changed = before != _versions([*_tensors(leaves), *own]) or not _are_equal(random, _random_states())
        size = sum(tensor.numel() for tensor in (*_tensors(leaves), *_tensors(given)))
        if changed or size > self.budget.left:
            return output
        self.budget.left -= size
        leaves, given = [_own_copy(leaf) for leaf in leaves], [_own_copy(leaf) for leaf in given]
        versions = _versions([*_tensors(leaves), *_tensors(given), *own])
        self.kept[number] = Kept(leaves, spec, own, given, output_spec, versions)
        return output

    def _is_repeated(self, kept: Kept, leaves: list[Any], spec: TreeSpec) -> bool:
        return (
            spec == kept.argument_spec
            and kept.versions == _versions([*_tensors(kept.arguments), *_tensors(kept.output), *kept.own])
            and all(map(_same, leaves, kept.arguments))
            and all(map(_same, _tensors_of(self.module), kept.own))
        )


def _place(tensor: Tensor) -> int:
    """Return where a tensor's memory begins; other layouts than strided ones are told by the object."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else -id(tensor)


def _tensors_of(module: nn.Module) -> list[Tensor]:
    """List the parameters and buffers that a module has at the moment."""
    return [*module.parameters(), *module.buffers()]


def _tensors(leaves: Iterable[Any]) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _versions(tensors: Sequence[Tensor]) -> list[int]:
    """List how often tensors were changed in place, which those of inference mode do not count."""
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _own_copy(leaf: Any) -> Any:
    """Return the leaf, or a copy of a tensor whose changes would not be noticed."""
    return leaf.clone() if isinstance(leaf, Tensor) and leaf.is_inference() else leaf


def _same(one: Any, other: Any) -> bool:
    """Return whether two leaves are the same, tensors by their place in memory or else by their values."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    if one is other:
        return True
    if (one.shape, one.dtype, one.device, one.layout) != (other.shape, other.dtype, other.device, other.layout):
        return False
    strided = one.layout == torch.strided
    return (strided and one.data_ptr() == other.data_ptr() and one.stride() == other.stride()) or torch.equal(
        one, other
    )


def _random_states() -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if torch.cuda.is_available() else states


def _are_equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(map(torch.equal, some, others))
