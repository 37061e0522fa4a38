"""The posterior of several mean-field runs together: an equal mixture of their q.

    q(w) = (1 / K) sum_k q_k(w)

Runs from different starts find different solutions, whose predictions differ where the data say little: the mixture has
the spread between them beside that within each. `r2d2net.combining.combine` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError, ParameterError, Shown, Value
from r2d2net.inference.base import Draws, DrawSource, Method, Trainer, part
from r2d2net.inference.mean_field_family import MeanFieldDraws, VariationalState
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors
from r2d2net.registry import ALGORITHMS


class MixtureState(NamedTuple):
    """The states of the runs by their numbers, and the mean of what their likelihoods learnt."""

    step: Tensor
    parts: dict[str, VariationalState]
    noise: Noise


class MeanFieldMixture(DrawSource[MixtureState]):
    """An equal mixture of mean-field posteriors of one model.

    Args:
        sources: The posteriors' sources of draws.
    """

    def __init__(self, sources: Sequence[MeanFieldDraws]) -> None:
        states = {str(number): source.state for number, source in enumerate(sources)}
        first = sources[0].state
        noise = {name: torch.stack([source.state.noise[name] for source in sources]).mean(0) for name in first.noise}
        super().__init__(sources[0].model, MixtureState(first.step, states, noise))
        self.family, self.blocks = sources[0].family, sources[0].blocks

    def sources(self) -> list[MeanFieldDraws]:
        """Return the sources of draws of the parts."""
        return [MeanFieldDraws(self.model, own, self.family, self.blocks) for own in self.state.parts.values()]

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        """Draw networks: of each part as many as of any other, but for a remainder of parts drawn at random."""
        sources = self.sources()
        each, rest = divmod(n, len(sources))
        order = torch.randperm(len(sources), generator=generator, device=self.model.device).tolist()
        for place, number in enumerate(order):
            count = each + (place < rest)
            if count:
                yield from sources[number].draws(count, generator, at_once)

    def center(self) -> Draws:
        """Refuse: the mean of the weights of different solutions is no network of its own right.

        Raises:
            ParameterError: Always.
        """
        problem = "has no mean network: its parts are different solutions"
        raise ParameterError(problem, argument="draws", value="mean", fix="use a number of draws")

    def with_noise_factor(self, factor: float) -> MeanFieldMixture:
        return MeanFieldMixture([source.with_noise_factor(factor) for source in self.sources()])


def mixture_of(sources: Sequence[DrawSource[Any]]) -> MeanFieldMixture:
    """Build the equal mixture of the posteriors of several runs.

    Args:
        sources: Sources of draws of mean-field posteriors of one model.

    Returns:
        The mixture.

    Raises:
        CheckpointError: If one of them is of another kind.
    """
    own = [source for source in sources if isinstance(source, MeanFieldDraws)]
    if len(own) < len(sources):
        wrong = next(source for source in sources if not isinstance(source, MeanFieldDraws))
        raise CheckpointError(("the saved run's parts are ", Value(type(wrong))), fix="fit again")
    return MeanFieldMixture(own)


@dataclass(frozen=True, kw_only=True)
class Combined(Method):
    """How a mixture was made, which a file names.

    Args:
        parts: Number of runs.
        of: Their algorithm, as `r2d2net.specification.describe` describes it.
    """

    parts: int
    of: Mapping[str, Any]

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Trainer[Any]:
        name = Shown("Combined")
        fix = "fit the runs by their own algorithm, and combine them"
        raise ParameterError("combines several fits", argument="algorithm", value=name, fix=fix)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> MeanFieldMixture:
        method = ALGORITHMS.get_class(self.of["type"])(**self.of["arguments"])
        return mixture_of([method.read(part(saved, f"parts/{k}/"), model, n=n, steps=steps) for k in range(self.parts)])
