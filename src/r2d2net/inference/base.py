"""What an inference algorithm is: settings, a trainer of pure steps over a state, and the source of draws it leaves.

    method = SVGI(...)                                    what the user writes: settings only
    trainer = method.build(model, n=..., steps=...)       bound to a model and the size of its data
    state = trainer.init(y, generator)
    state, info = trainer.step(state, (x, y), generator)
    source = trainer.finish(state)                        what a posterior keeps of the run
    for networks in source.draws(10, generator): ...

Nothing is hidden: all that changes in training is in the state, a NamedTuple of tensors, and of NamedTuples and dicts
of tensors. Its field ``step`` is the number of steps taken, an int64 scalar on the CPU. A step takes ownership of the
state it is given and may reuse its memory.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import Argument, CheckpointError, ParameterError, Shown, Value, require_instance
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import AnyPrior, BayesianModel, Tensors
from r2d2net.ranks import RowSplit
from r2d2net.registry import ALGORITHMS, PRIORS

Batch = tuple[Any, Tensor]
StateT = TypeVar("StateT", bound=tuple[Any, ...])  # a NamedTuple


class Info(NamedTuple):
    """Report of one step; tensors are left on the device.

    Attributes:
        nll: Mean negative log likelihood of the batch, a scalar.
        learning_rate: Step size.
        temperature: Weight of the prior or the KL.
    """

    nll: Tensor
    learning_rate: float
    temperature: float


class Draws(NamedTuple):
    """Draws of n whole networks; tensors that they share are expanded, not copied.

    Attributes:
        weights: Bayesian weights, (n, weights).
        fixed: Deterministic parameters, (n, deterministic parameters).
        buffers: Buffers by name, (n, ...).
        noise: Learnt parameters of the likelihood by name, (n, ...).
    """

    weights: Tensor
    fixed: Tensor
    buffers: Tensors
    noise: Noise

    @classmethod
    def sharing(cls, weights: Tensor, fixed: Tensor, buffers: Tensors, noise: Noise) -> Draws:
        """Build draws that differ in their weights alone.

        Args:
            weights: Bayesian weights of each draw, (n, weights).
            fixed: Deterministic parameters of all draws.
            buffers: Buffers of all draws.
            noise: Learnt parameters of the likelihood of all draws.

        Returns:
            The draws.
        """
        n = len(weights)
        shared = [{k: v.expand(n, *v.shape) for k, v in tensors.items()} for tensors in (buffers, noise)]
        return cls(weights, fixed.expand(n, *fixed.shape), *shared)


class DrawSource(ABC, Generic[StateT]):
    """A distribution of networks: all that a posterior needs of the run that made it.

    Args:
        model: The model whose networks are drawn.
        state: The tensors that the draws are made of, a NamedTuple with a field ``noise``; they are what is saved.

    Attributes:
        draws_noise: Whether the noise is part of the draws, and not to be corrected by validation rows.
        are_chains: Whether the stored draws are Markov chains, of which R-hat and effective sample sizes tell
            something.
    """

    draws_noise: bool = False
    are_chains: bool = False

    def __init__(self, model: BayesianModel[Any], state: StateT) -> None:
        self.model, self.state = model, state

    @abstractmethod
    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        """Draw networks.

        Args:
            n: Number of networks.
            generator: Source of randomness, on the model's device; None for torch's global generator.
            at_once: Largest number of networks in memory at a time; None for all.

        Yields:
            Draws of up to ``at_once`` networks, n in total.
        """

    @abstractmethod
    def center(self) -> Draws:
        """Compute the network of the mean weights.

        Returns:
            Draws of that one network.
        """

    def joined(self, n: int, generator: torch.Generator | None = None) -> Draws:
        """Draw networks, all in one piece.

        Args:
            n: Number of networks.
            generator: Source of randomness, on the model's device; None for torch's global generator.

        Returns:
            The draws, which `draws` may yield in several pieces.
        """
        pieces = list(self.draws(n, generator))
        if len(pieces) == 1:
            return pieces[0]

        def cat(of: Callable[[Draws], Tensors]) -> Tensors:
            return {name: torch.cat([of(piece)[name] for piece in pieces]) for name in of(pieces[0])}

        weights, fixed = torch.cat([piece.weights for piece in pieces]), torch.cat([piece.fixed for piece in pieces])
        return Draws(weights, fixed, cat(lambda piece: piece.buffers), cat(lambda piece: piece.noise))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw the Bayesian weights of networks.

        Args:
            n: Number of networks.
            generator: Source of randomness, on the model's device; None for torch's global generator.

        Returns:
            The weights, (n, weights).
        """
        return torch.cat([networks.weights for networks in self.draws(n, generator)])

    @property
    def available(self) -> int | None:
        """Number of different draws that are stored; None where draws are made as they are needed."""
        return None

    def kl(self) -> Tensor | None:
        """Compute the KL divergence of the posterior from the prior.

        Returns:
            The divergence in nats, or None where the algorithm has none.
        """
        return None

    def with_state(self, state: StateT) -> Self:
        """Build the same source with another state.

        Args:
            state: The other state.

        Returns:
            The new source.
        """
        changed = copy.copy(self)
        changed.state = state
        return changed

    def with_noise_factor(self, factor: float) -> Self:
        """Build the same source with another noise variance.

        Args:
            factor: Number by which the noise variance is multiplied.

        Returns:
            The new source.
        """
        state: Any = self.state
        return self.with_state(state._replace(noise={**state.noise, "variance": state.noise["variance"] * factor}))


class Trainer(ABC, Generic[StateT]):
    """An algorithm bound to a model: pure steps over a state."""

    model: BayesianModel[Any]
    draws_for_rows: bool = True  # whether what a step draws from torch's global generators is drawn for single rows

    @abstractmethod
    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> StateT:
        """Return the state before the first step.

        Args:
            y: Training targets, standardised.
            generator: Source of all randomness, on the model's device.
            unit: The user's units of ``y``.

        Returns:
            The state.
        """

    @abstractmethod
    def step(self, state: StateT, batch: Batch, generator: torch.Generator) -> tuple[StateT, Info]:
        """Take one step.

        Args:
            state: State before the step, whose memory the step may reuse.
            batch: Inputs and targets of the batch, standardised.
            generator: Source of all randomness, on the model's device.

        Returns:
            The state after the step, and the report of the step.
        """

    @abstractmethod
    def source(self, state: StateT) -> DrawSource[Any]:
        """Build the distribution of networks that a state describes, at any moment of the run.

        Args:
            state: The state.

        Returns:
            The source of draws.
        """

    def present(self, state: StateT) -> Draws:
        """Return the current network of a run, in which divergence shows.

        Args:
            state: The state.

        Returns:
            Draws of that one network.
        """
        return self.source(state).center()

    def split_rows(self, split: RowSplit) -> None:
        """Share the rows of every step with other processes from now on.

        A step is then given some of its rows on each process, and must leave the same state on all of them.

        Args:
            split: The processes, and what they average.

        Raises:
            ParameterError: If the algorithm cannot split rows; that is so unless it says otherwise.
        """
        name = Shown(type(getattr(self, "settings", self)).__name__)
        problem = f"cannot split the rows of a step among {split.ranks.size} processes"
        fix = ("use svgi, say, or ", Argument("ranks", "alone"), " for a fit of its own in each process")
        raise ParameterError(problem, argument="algorithm", value=name, fix=fix)

    def kl(self, state: StateT) -> Tensor | None:
        """Compute the KL divergence from the prior of the distribution that a state describes, for the history.

        Args:
            state: The state.

        Returns:
            The divergence in nats, or None where the algorithm has none.
        """
        return self.source(state).kl()

    def draws_globally(self, batch: Batch) -> bool:
        """Tell whether a step may draw from torch's global generators, as Dropout layers do.

        Args:
            batch: Inputs and targets of a batch.

        Returns:
            Whether it may; True unless an algorithm knows that its step does not call the network.
        """
        return True

    def is_done(self, state: StateT) -> bool:
        """Tell after an epoch whether the run may end before its last one.

        Args:
            state: The state.

        Returns:
            Whether it may; False unless an algorithm says otherwise.
        """
        return False

    def run_away(self, state: StateT) -> str | None:
        """Tell after an epoch whether the run has left all sense although its numbers are finite.

        Args:
            state: The state.

        Returns:
            What shows it, for the `DivergenceError` that ends the run; None unless an algorithm says otherwise.
        """
        return None

    def measures(self, state: StateT) -> dict[str, float]:
        """Return what the algorithm adds to the history after an epoch.

        Args:
            state: The state.

        Returns:
            Finite numbers by name; none unless an algorithm says otherwise.
        """
        return {}

    def finish(self, state: StateT) -> DrawSource[Any]:
        """Build the source of draws that the posterior keeps at the end of a run.

        Args:
            state: The state after the last step.

        Returns:
            The source of draws, which shares no tensor with the state: steps that follow do not change it.
        """
        return self.source(copied(state))

    def restore(self, saved: Tensors) -> DrawSource[Any]:
        """Rebuild the source of draws that `finish` returned from the tensors of a file.

        Args:
            saved: Tensors by name, as `checkpoint.flatten` makes them of the source's state.

        Returns:
            The source of draws.

        Raises:
            CheckpointError: If the tensors are of another model or algorithm.
        """
        device = self.model.device
        target = torch.zeros(1, 1, dtype=self.model.dtype, device=device)
        template = self.init(target, torch.Generator(device).manual_seed(0))
        # the number of noise variances depends on the data
        return self.source(unflatten(template, saved, any_shape=lambda name: "noise" in name.split("/")))


class Method(ABC):
    """An algorithm's settings, a frozen dataclass of plain JSON values."""

    full_batch: ClassVar[bool] = False  # every step sees all rows
    optimizes: ClassVar[bool] = True  # the last state is the best: a run can be stopped early
    suits_every_prior: ClassVar[bool] = True  # False: `build` refuses some priors by their traits
    suits_every_net: ClassVar[bool] = True  # False: `build` takes networks of one linear layer alone, or as follows
    takes_weights: ClassVar[bool] = True  # False: `fit` refuses weights of rows (`likelihoods.weighted`)
    takes_missing: ClassVar[bool] = True  # False: `fit` refuses targets of which some are NaN (`likelihoods.masked`)
    needs_linear_path: ClassVar[bool] = False  # True: `build` refuses networks without a linear path

    @property
    def runs(self) -> int:
        """Number of independent runs that make one posterior: members of an ensemble, chains of a sampler."""
        return 1

    @property
    def origin(self) -> str | None:
        """Digest of the posterior that the run starts from, where the algorithm was given one; a part of its record."""
        return None

    def default_epochs(self, n: int) -> int:
        """Return the number of epochs of a run whose length the user does not say.

        Args:
            n: Number of training rows.

        Returns:
            The number, 100 unless an algorithm says otherwise.
        """
        return 100

    def require_batches(self, per_epoch: int) -> None:  # noqa: B027 (most algorithms take any number)
        """Refuse a number of batches that the algorithm cannot work with.

        Args:
            per_epoch: Number of batches in an epoch.

        Raises:
            ParameterError: If the algorithm cannot work with it.
        """

    def settled(self, model: BayesianModel[Any]) -> Self:
        """Return the settings with every choice made that depends on the machine; a run is recorded by them.

        Args:
            model: The model.

        Returns:
            Settings that name what will run.
        """
        return self

    @abstractmethod
    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Trainer[Any]:
        """Bind the algorithm to a model and the size of its data.

        Args:
            model: The model.
            n: Number of training rows.
            steps: Number of steps of the run.

        Returns:
            The trainer.

        Raises:
            ParameterError: If the algorithm does not suit the model.
        """

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> DrawSource[Any]:
        """Rebuild the source of draws of a finished run from the tensors of a file.

        Args:
            saved: Tensors by name.
            model: The model.
            n: Number of training rows.
            steps: Number of steps of the run.

        Returns:
            The source of draws.

        Raises:
            CheckpointError: If the tensors are of another model or algorithm.
        """
        return self.build(model, n=n, steps=steps).restore(saved)


def make_plain(settings: Method) -> None:
    """Convert numpy numbers among the settings to Python numbers, which JSON can represent."""
    for field in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())  # frozen


def method_named(algorithm: Method | str) -> Method:
    """Look up an algorithm.

    Args:
        algorithm: An object of an algorithm, or its name, in upper or lower case, for the default settings.

    Returns:
        The algorithm with its settings.

    Raises:
        ParameterError: If there is no such algorithm, or a class was given in place of an object.

    Example:
        >>> method_named("sgld").thin is None
        True
    """
    if isinstance(algorithm, str) and algorithm.lower() in ALGORITHMS:
        method: Method = ALGORITHMS.constructor(algorithm.lower())()
        return method
    fix = f"use one of {', '.join(sorted(ALGORITHMS))}, or of r2d2net.inference"
    require_instance(algorithm, Method, "algorithm", "algorithm", fix)
    assert isinstance(algorithm, Method)
    return algorithm


def require_priors(model: BayesianModel[Any], suits: Callable[[AnyPrior], bool], method: str, reason: str) -> None:
    """Refuse a model with a prior that does not suit, in one line that names the built-in priors that do.

    Args:
        model: The model.
        suits: Tells by the prior's traits whether the algorithm can use it.
        method: Name of the algorithm.
        reason: What makes other priors unsuitable.

    Raises:
        ParameterError: A prior of the model does not suit.
    """
    for slot in model.bayesian:
        if slot.prior is not None and not suits(slot.prior):
            priors = ", ".join(cls.__name__ for cls in PRIORS.classes() if suits(cls()))
            algorithms = ", ".join(
                cls.__name__ for cls in ALGORITHMS.classes() if cls.suits_every_prior and cls.suits_every_net
            )
            raise ParameterError(
                f"does not suit the prior {type(slot.prior).__name__} of {slot.name!r}: {reason}",
                argument="algorithm",
                value=Shown(method),
                fix=f"use one of {priors}, or an algorithm for every prior: {algorithms}",
            )


# --- states as flat dicts of tensors


def flatten(tree: Any, prefix: str = "") -> dict[str, Tensor]:
    """Flatten a tree of dicts and NamedTuples of tensors to one dict.

    Args:
        tree: A tensor, None, which is left out, or a dict or NamedTuple of trees.
        prefix: Text in front of every key.

    Returns:
        The tensors; keys of the levels are joined by '/'.

    Example:
        >>> import torch
        >>> sorted(flatten({"a": torch.zeros(1), "b": {"c": torch.zeros(2)}}))
        ['a', 'b/c']
    """
    if tree is None:
        return {}
    if isinstance(tree, Tensor):
        return {prefix: tree}
    items = tree._asdict().items() if hasattr(tree, "_asdict") else tree.items()
    flat: dict[str, Tensor] = {}
    for key, value in items:
        flat.update(flatten(value, f"{prefix}/{key}" if prefix else key))
    return flat


def unflatten(
    template: Any, tensors: dict[str, Tensor], *, any_shape: Callable[[str], bool] = lambda name: False
) -> Any:
    """Fill a tree of the template's form from a flat dict.

    Args:
        template: Tree of tensors that gives names, shapes, dtypes and devices.
        tensors: Flat dict as `flatten` makes it.
        any_shape: Whether the tensor of a name may have another shape than the template's.

    Returns:
        The tree, on the template's devices.

    Raises:
        CheckpointError: If a tensor is missing, unexpected, or of another shape or dtype than the template's.
    """
    expected = flatten(template)
    for name in sorted(expected.keys() ^ tensors.keys()):
        verb = "lacks" if name in expected else "also holds"
        raise CheckpointError((f"the saved run {verb} ", Value(name)), fix="it was made for another net or algorithm")
    for name, like in expected.items():
        tensor = tensors[name]
        fits = tensor.shape == like.shape or any_shape(name)
        if not fits or tensor.dtype != like.dtype:
            held = Shown(f"{tuple(tensor.shape)} {tensor.dtype}")
            needed = f", the model needs {tuple(like.shape)} {like.dtype}"
            fix = "give the network that was fitted"
            raise CheckpointError((f"the saved run holds {name!r} as ", Value(held), needed), fix=fix)
    return _fill(template, tensors, "")


def copied(state: Any) -> Any:
    """Copy a tree of dicts and NamedTuples of tensors.

    Args:
        state: The tree.

    Returns:
        The same tree with tensors of its own.
    """
    return unflatten(state, {name: tensor.clone() for name, tensor in flatten(state).items()})


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Select the tensors whose names start with a prefix.

    Args:
        tensors: Tensors by name.
        prefix: Start of the names, such as "state/".

    Returns:
        The selected tensors by their names without the prefix.
    """
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _fill(template: Any, tensors: dict[str, Tensor], prefix: str) -> Any:
    if isinstance(template, Tensor):
        return tensors[prefix].to(template.device)
    items = template._asdict() if hasattr(template, "_asdict") else template
    filled = {k: _fill(v, tensors, f"{prefix}/{k}" if prefix else k) for k, v in items.items()}
    return type(template)(**filled) if hasattr(template, "_asdict") else filled
