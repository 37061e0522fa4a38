"""A posterior made of stored draws: those of samplers, chain by chain, or the members of an ensemble.

While a sampler runs, `Kept` is part of its state: room for a number of draws that the memory cap allows. A draw is kept
every ``every`` steps after the burn-in; when there is no room left every second draw goes and ``every`` doubles, so
the draws stay evenly spaced over the whole chain however long it is. In the end `Collection` is all that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor
from typing_extensions import TypeVar

from r2d2net.errors import Argument, CheckpointError, ParameterError, Shown, Value
from r2d2net.inference.base import Draws, DrawSource, flatten, part
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors

DrawsT = TypeVar("DrawsT", default=Draws)  # a NamedTuple


class Kept(NamedTuple, Generic[DrawsT]):
    """Stored draws in the order of the run; the first ``number`` places of the capacity are filled."""

    number: Tensor  # int64 scalar on the CPU
    every: Tensor  # steps between two of them, int64 scalar on the CPU
    draws: DrawsT  # (capacity, ...)


class CollectionState(NamedTuple):
    """The draws of all chains: tensors of draws are (chains, draws, ...)."""

    step: Tensor  # steps of a chain
    weights: Tensor
    fixed: Tensor
    buffers: Tensors
    noise: Noise
    divergences: Tensor  # of each chain, after its warm-up: (chains,), int64 on the CPU; HMC and MCLMC have some


def bytes_of(network: Draws) -> int:
    """Return the number of bytes of one draw; ``network`` holds a single draw."""
    return sum(tensor.numel() * tensor.element_size() for tensor in flatten(network).values())


def room_for(planned: int, network: Draws, memory: int) -> int:
    """Return the number of draws to allocate: the planned number as far as ``memory`` allows, even if above one.

    ``network`` is one draw. A cap that holds fewer than two draws is an error.
    """
    if planned <= 1:
        return 1
    size = bytes_of(network)
    if memory < 2 * size:
        fix = f"two draws of this network need {2 * size} bytes"
        raise ParameterError("is out of range", argument="memory", value=memory, fix=fix)
    return 2 * (min(planned + planned % 2, memory // size) // 2)


def no_draws(capacity: int, network: Draws, every: int) -> Kept:
    """Allocate memory for draws of the shapes of ``network``, a single draw."""

    def room(tensor: Tensor) -> Tensor:
        return tensor.new_zeros((capacity, *tensor.shape[1:]))

    buffers, noise = ({k: room(v) for k, v in tensors.items()} for tensors in (network.buffers, network.noise))
    draws = Draws(room(network.weights), room(network.fixed), buffers, noise)
    return Kept(torch.zeros((), dtype=torch.int64), torch.tensor(every), draws)


def keep(kept: Kept[DrawsT], network: DrawsT, step: int) -> Kept[DrawsT]:
    """Store ``network``, a single draw, if this step after the burn-in (1, 2, ...) is due; draws change in place."""
    count, every = int(kept.number), int(kept.every)
    if step % every:
        return kept
    stored, new = flatten(kept.draws), flatten(network)
    capacity = len(next(iter(stored.values())))
    if count == capacity and capacity > 1:
        for tensor in stored.values():
            tensor[: capacity // 2] = tensor[1::2].clone()
        count, every = capacity // 2, 2 * every
        if step % every:
            return Kept(torch.tensor(count), torch.tensor(every), kept.draws)
    if capacity == 1:
        count = 0
    for name, tensor in stored.items():
        tensor[count] = new[name][0]
    return Kept(torch.tensor(count + 1), torch.tensor(every), kept.draws)


def collected(step: Tensor, draws: Draws, divergences: int = 0) -> CollectionState:
    """Return a collection of one chain with these draws."""
    buffers, noise = ({k: v[None].clone() for k, v in tensors.items()} for tensors in (draws.buffers, draws.noise))
    weights, fixed = draws.weights[None].clone(), draws.fixed[None].clone()
    return CollectionState(step, weights, fixed, buffers, noise, torch.tensor([divergences]))


def by_chain(step: Tensor, draws: Draws, divergences: Tensor) -> CollectionState:
    """Return a collection of chains that were advanced side by side, whose draws are (draws, chains, ...)."""

    def turned(tensor: Tensor) -> Tensor:
        return tensor.transpose(0, 1).clone(memory_format=torch.contiguous_format)

    buffers, noise = ({k: turned(v) for k, v in tensors.items()} for tensors in (draws.buffers, draws.noise))
    return CollectionState(step, turned(draws.weights), turned(draws.fixed), buffers, noise, divergences.clone())


def of_chain(draws: Draws, chain: int) -> Draws:
    """Return the draws of one of several chains, whose draws are (draws, chains, ...)."""
    buffers, noise = ({k: v[:, chain] for k, v in tensors.items()} for tensors in (draws.buffers, draws.noise))
    return Draws(draws.weights[:, chain], draws.fixed[:, chain], buffers, noise)


def first(draws: Draws, count: int) -> Draws:
    """Return the first ``count`` draws."""
    buffers, noise = ({k: v[:count] for k, v in tensors.items()} for tensors in (draws.buffers, draws.noise))
    return Draws(draws.weights[:count], draws.fixed[:count], buffers, noise)


def merged(chains: Sequence[CollectionState]) -> CollectionState:
    """Join collections to one of several chains, each cut to the number of draws of the shortest."""
    fewest = min(chain.weights.shape[1] for chain in chains)

    def together(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([tensor[:, -fewest:] for tensor in tensors])

    def all_together(each: Sequence[Tensors]) -> Tensors:
        return {name: together([tensors[name] for tensors in each]) for name in each[0]}

    return CollectionState(
        max(chain.step for chain in chains),
        together([chain.weights for chain in chains]),
        together([chain.fixed for chain in chains]),
        all_together([chain.buffers for chain in chains]),
        all_together([chain.noise for chain in chains]),
        torch.cat([chain.divergences for chain in chains]),
    )


class Collection(DrawSource[CollectionState]):
    """Stored draws; the run that made them is over.

    Args:
        model: The model.
        state: The draws.
        has_mean: Whether the mean of a chain's draws is a network of its own right. That of an ensemble is not: its
            members are different solutions, and hidden units that do the same in two of them stand in different places.
            The same holds of several chains, unless the model is linear.
        draws_noise: Whether the noise of the draws was drawn with them.
        are_chains: Whether the draws are Markov chains, and not members of an ensemble.
    """

    def __init__(
        self,
        model: BayesianModel[Any],
        state: CollectionState,
        *,
        has_mean: bool = True,
        draws_noise: bool = False,
        are_chains: bool = True,
    ) -> None:
        super().__init__(model, state)
        self.has_mean, self.draws_noise, self.are_chains = has_mean, draws_noise, are_chains

    @classmethod
    def restored(cls, model: BayesianModel[Any], saved: Tensors, **traits: bool) -> Collection:
        """Rebuild stored draws from the tensors of a file.

        Args:
            model: The model.
            saved: Tensors by name.
            **traits: The other arguments of the class.

        Returns:
            The stored draws.

        Raises:
            CheckpointError: If the tensors are of another model.
        """
        return cls(model, state_from(model, saved), **traits)

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        """Take draws evenly spaced over those stored, from a random offset; each exactly once if n is their number.

        More than there are repeat, each as often as any other but for one.
        """
        state, total = self.state, self.available
        offset = torch.rand((), generator=generator, device=state.weights.device).double().cpu()
        index = ((torch.arange(n, dtype=torch.float64) + offset) * (total / n)).long().clamp(max=total - 1)
        for chunk in index.to(state.weights.device).split(n if at_once is None else at_once):
            yield _taken(state, chunk)

    def center(self) -> Draws:
        state = self.state
        several = self.available > 1 if not self.has_mean else state.weights.shape[0] > 1
        if several and not self.model.is_linear:
            raise ParameterError(
                "the mean weights of several solutions (members, chains, cycles) are no network",
                fix=("predict with ", Argument("draws", 5), ", take single networks from posterior.state_dicts"),
            )
        return Draws(*(_mean(tensors) for tensors in (state.weights, state.fixed, state.buffers, state.noise)))

    @property
    def available(self) -> int:
        return self.state.weights.shape[0] * self.state.weights.shape[1]


def state_from(model: BayesianModel[Any], saved: Tensors) -> CollectionState:
    """Rebuild the state of stored draws from the tensors of a file; a CheckpointError if they are of another model."""
    try:
        step, weights, fixed, divergences = (saved[k] for k in ("step", "weights", "fixed", "divergences"))
    except KeyError as error:
        raise CheckpointError(f"the saved run lacks {error}", fix="it was made for another algorithm") from error
    widths = {"weights": (weights, model.size), "fixed": (fixed, model.fixed_size)}
    for name, (tensor, width) in widths.items():
        if tensor.dim() != 3 or tensor.shape[2] != width or tensor.dtype != model.dtype:
            drawn = Shown(f"{tuple(tensor.shape)} {tensor.dtype}")
            fix = "give the network that was fitted"
            raise CheckpointError((f"the saved run's draws of {name} are ", Value(drawn)), fix=fix)
    buffers, own, device = part(saved, "buffers/"), model.buffers(), model.device
    if {k: v.shape[2:] for k, v in buffers.items()} != {k: v.shape for k, v in own.items()}:
        raise CheckpointError(
            "the saved run's buffers are not those of this net", fix="give the network that was fitted"
        )
    buffers = {name: buffers[name].to(device) for name in own}
    noise = {name: tensor.to(device) for name, tensor in part(saved, "noise/").items()}
    return CollectionState(step, weights.to(device), fixed.to(device), buffers, noise, divergences)


def _taken(state: CollectionState, index: Tensor) -> Draws:
    def take(tensor: Tensor) -> Tensor:
        return tensor.flatten(0, 1)[index]

    buffers, noise = ({k: take(v) for k, v in tensors.items()} for tensors in (state.buffers, state.noise))
    return Draws(take(state.weights), take(state.fixed), buffers, noise)


def _mean(stored: Any) -> Any:
    """Return the mean of stored draws as a single draw; the last value of integer tensors."""
    if isinstance(stored, dict):
        return {name: _mean(tensor) for name, tensor in stored.items()}
    flat = stored.flatten(0, 1)
    return flat.mean(0, keepdim=True) if flat.is_floating_point() else flat[-1:]
