"""Relevance of the inputs of a fitted network: how much it uses each, which it keeps, and their ranking.

For one draw f of the network, the relevance of input i is the share of the output's variance that is lost when the
column is shuffled over the rows and all other columns are left in place:

    r_i = E (f(x) - f(x with x_i shuffled))^2 / (2 Var f(x))

For independent inputs it is the total-effect index of sensitivity analysis (Jansen, 1999), and for a linear network
w_i^2 Var x_i / Var f(x). An interaction counts for each of its inputs, so the shares may add up to more than 1. An
input is needed if r_i >= ``least`` with posterior probability 95% or more. The weights of the first layer would not
serve: those of a hidden unit that the next layer ignores follow their prior and may be large, and a Gibbs sweep can
leave a tiny weight with a far tinier standard deviation.

Shuffling breaks correlations. Of two inputs that carry nearly the same information, a sparse network uses one, and the
other has r = 0: the network does not need it, but it is not noise either. So a second share measures the information of
an input by itself,

    m_i = 1 - min over parabolas l of Var(f(x) - l(x_i)) / Var f(x)        (adjusted for their coefficients)

which for a category (a group of columns) is the correlation ratio. Inputs are ranked by the mean of both,
importance = (r + m) / 2, which `importance_shares` converts to shares of at most 1, in whose order the inputs are kept
that agree best with those needed. Inputs that can stand for each other form a group (`input_groups`).

Where inputs are independent and their effects are additive parabolas, r, m and the importance are equal. For a
classifier f(x) are the logits minus their mean over classes, on which no probability depends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require, require_whole
from r2d2net.graphs import Graph, GraphFeatures
from r2d2net.network_inputs import as_tensors
from r2d2net.notebook_tables import html_table
from r2d2net.posterior import MEMORY, Posterior
from r2d2net.shrinkage.column_shuffles import ColumnShuffles
from r2d2net.shrinkage.explained_shares import explained_shares
from r2d2net.shrinkage.importance_shares import importance_shares, kept_by_share
from r2d2net.shrinkage.input_groups import input_groups
from r2d2net.shrinkage.shuffled_outputs import ShuffledOutputs, most_rows

LEVEL = 0.95  # least posterior probability of an input that is needed
MOST_SHOWN = 20  # inputs that a notebook shows


class Relevance(NamedTuple):
    """Relevance of each input, shape (inputs,), summarised over posterior draws.

    Attributes:
        mean: Posterior mean of r, the share of the output's variance that is lost when the input is shuffled.
        low, high: Ends of the central 90% interval of r.
        probability: Posterior probability of r >= least.
        kept: Whether the input is among the first by share, cut where that agrees best with the inputs whose
            probability is at least 95% (see `importance_shares.kept_by_share`).
        alone: Posterior mean of m, the share that the input explains by itself.
        importance: Posterior mean of (r + m) / 2, by which inputs are ranked.
        importance_std: Posterior standard deviation of (r + m) / 2.
        share: The importance as a share of the importance of all inputs, between 0 and 1; they add up to at most 1.
        group: Number of the group of inputs that can stand for each other (`input_groups`); -1 where there is none.
    """

    mean: Tensor
    low: Tensor
    high: Tensor
    probability: Tensor
    kept: Tensor
    alone: Tensor
    importance: Tensor
    importance_std: Tensor
    share: Tensor
    group: Tensor

    @property
    def share_std(self) -> Tensor:
        """Posterior standard deviation of the importance, in units of the shares."""
        return self.importance_std / self.importance.clamp(min=0).sum().clamp(min=1)

    def without_kept(self) -> Relevance:
        """Keep no input, for a network that predicts no better than a constant.

        Returns:
            The same measures with no input kept.
        """
        return self._replace(kept=torch.zeros_like(self.kept))

    @property
    def names(self) -> list[str]:
        """Names of the inputs: their numbers, unless they have others (`NamedRelevance`)."""
        return [str(place) for place in range(len(self.share))]

    def among(self, inputs: int, places: Sequence[int]) -> Relevance:
        """Put the measures at places among more inputs, of which the others have no relevance.

        Args:
            inputs: Number of all inputs.
            places: Where those stand that are measured.

        Returns:
            The measures of all inputs.
        """
        nothing = {name: -1.0 if name == "group" else 0.0 for name in self._fields}
        whole = {name: part.new_full((inputs,), nothing[name]) for name, part in self._asdict().items()}
        for name, part in self._asdict().items():
            whole[name][list(places)] = part
        return Relevance(**whole)

    @classmethod
    def restored(cls, measures: Mapping[str, Tensor]) -> Relevance:
        """Restore what a file kept; files of earlier versions have neither shares nor groups.

        Args:
            measures: Values by the names of the fields.

        Returns:
            The measures.
        """
        importance = measures["importance"]
        later = {"share": importance_shares(importance), "group": torch.full(importance.shape, -1)}
        return cls(**{**later, **measures})

    def _repr_html_(self) -> str:
        """Show the inputs in a notebook, the most important first."""
        order, errors = self.share.argsort(descending=True, stable=True).tolist(), self.share_std
        names = self.names
        rows = (
            [
                names[place],
                f"{float(self.share[place]):.1%} ± {float(errors[place]):.1%}",
                f"{float(self.mean[place]):.1%} ({float(self.low[place]):.1%} to {float(self.high[place]):.1%})",
                f"{float(self.alone[place]):.1%}",
                "kept" if bool(self.kept[place]) else "",
            ]
            for place in order[:MOST_SHOWN]
        )
        kept, inputs = int(self.kept.sum()), len(order)
        caption = f"Relevance: {kept} of {inputs} inputs kept"
        caption += f"; the first {MOST_SHOWN} by share" if inputs > MOST_SHOWN else ""
        return html_table(caption, ["input", "share", "lost if shuffled (90%)", "by itself", ""], rows)


class NamedRelevance(Relevance):
    """Relevance of inputs that have names, such as the columns of a table."""

    _names: list[str]

    @classmethod
    def of(cls, relevance: Relevance, names: Sequence[str]) -> NamedRelevance:
        """Give inputs names.

        Args:
            relevance: The measures.
            names: A name for each input.

        Returns:
            The same measures.
        """
        named = cls(*relevance)
        named._names = list(names)
        return named

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return self._names

    def without_kept(self) -> NamedRelevance:
        """Keep no input, for a network that predicts no better than a constant.

        Returns:
            The same measures with no input kept.
        """
        return NamedRelevance.of(super().without_kept(), self._names)


@torch.no_grad()
def input_relevance(
    posterior: Posterior[Any],
    x: Any,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    least: float = 0.01,
    draws: int = 100,
    shuffles: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Relevance:
    """Compute the relevance of the columns of a table for a network fitted to such tables.

    Args:
        posterior: The fitted network.
        x: Rows to shuffle, in the user's units, such as the training inputs, in any form that `Posterior.predict`
            takes; no targets are needed. For a network of the nodes of a graph the graph, whose features are shuffled
            over all nodes.
        groups: For each input the columns that belong to it, such as those of a category, which are shuffled
            together; by default each column is an input of its own.
        least: Share of the output's variance below which an input does not matter. Where hundreds of inputs matter
            each has less than the default 1%: choose a smaller share.
        draws: Number of posterior draws; fewer are used where the posterior stores fewer.
        shuffles: Number of shuffles of each column, which are averaged.
        seed: Seed of draws and shuffles.
        progress: Called after each draw with the number of draws done and the total.

    Returns:
        The relevance of each input.

    Raises:
        DataError: If ``x`` is not a table of at least two rows that the network can predict.
        ParameterError: If another argument lies outside its range.
    """
    require(0 < least < 1, "least", least, "use a share between 0 and 1, such as 0.01")
    require_whole("draws", draws)
    require_whole("shuffles", shuffles)
    if isinstance(x, Graph):
        posterior = posterior.on(GraphFeatures(x))
        assert posterior.model.context is not None
        x = posterior.model.context.features
    table = as_tensors(x)
    if isinstance(table, tuple):
        raise DataError(("has ", Value(len(table)), " inputs"), argument="x", fix="give one table (rows, inputs)")
    if table.dim() != 2 or len(table) < 2:
        fix = "give a table (rows, inputs) of at least two rows"
        raise DataError(("has shape ", Value(tuple(table.shape))), argument="x", fix=fix)
    inputs = _columns_of_inputs(groups, table.shape[1])
    generator = torch.Generator().manual_seed(seed)
    # all draws use the same shuffles, so that differences between draws come from the posterior alone
    permutations = [torch.randperm(len(table), generator=generator) for _ in range(shuffles * len(inputs))]
    orders = torch.stack(permutations).view(len(inputs), shuffles, len(table))
    softmax = _is_softmax(posterior, table)
    inputs_seen = posterior.network_inputs(table)
    if posterior.units.are_exact_for(posterior.model.dtype):
        table = inputs_seen  # in the user's units float32 does not hold it
    outputs_by_draw, shares_by_draw = [], []
    available = posterior.source.available
    total = draws if available is None else min(draws, available)
    shuffled = ColumnShuffles(inputs_seen, inputs, orders, most_rows(posterior.model, table.shape[1]))
    for network in _networks(posterior, inputs_seen, total, seed, softmax):
        before = network.before  # (rows, outputs)
        variance = before.var(0, correction=0).sum().clamp(min=torch.finfo(before.dtype).tiny)
        shares_by_draw.append(torch.cat([network.mean_square(block) for block in shuffled]) / (2 * variance))
        outputs_by_draw.append(before)
        progress(len(outputs_by_draw), total)
    shares = torch.stack(shares_by_draw, dim=1)  # (inputs, draws)
    alone = explained_shares(table, inputs, torch.stack(outputs_by_draw))
    probability = (shares >= least).to(shares.dtype).mean(1)
    importance = (shares + alone) / 2
    share = importance_shares(importance.mean(1))
    return Relevance(
        mean=shares.mean(1),
        low=shares.quantile(0.05, dim=1),
        high=shares.quantile(0.95, dim=1),
        probability=probability,
        kept=kept_by_share(share, probability >= LEVEL),
        alone=alone.mean(1),
        importance=importance.mean(1),
        importance_std=importance.std(1, correction=0),
        share=share,
        group=input_groups(table, inputs, share, least=least),
    )


def _is_softmax(posterior: Posterior[Any], table: Tensor) -> bool:
    """Whether the outputs are logits rather than the evidence of EDL or DPN; refuse a table that has no prediction."""
    posterior.predict(table, 1, seed=0)
    return posterior.model.likelihood.is_softmax


def _networks(
    posterior: Posterior[Any], inputs: Tensor, draws: int, seed: int, softmax: bool
) -> Iterator[ShuffledOutputs]:
    """Iterate over draws of the network, each drawn once, with their outputs at the standardised rows."""
    model = posterior.model
    generator = torch.Generator(model.device).manual_seed(seed)
    at_once = max(1, MEMORY // model.size)
    for drawn in posterior.source.draws(draws, generator, at_once=at_once):
        for i in range(len(drawn.weights)):
            buffers = {name: buffer[i] for name, buffer in drawn.buffers.items()}
            yield ShuffledOutputs(model, drawn.weights[i], drawn.fixed[i], buffers, inputs, centred=softmax)


def _columns_of_inputs(groups: Sequence[Sequence[int]] | None, columns: int) -> list[list[int]]:
    """List the columns of each input, checked against the number of columns."""
    if groups is None:
        return [[i] for i in range(columns)]
    inputs = [list(group) for group in groups]
    known = all(group and all(isinstance(i, int) and 0 <= i < columns for i in group) for group in inputs)
    require(known, "groups", groups, f"use lists of columns from 0 to {columns - 1}, none of them empty")
    return inputs
