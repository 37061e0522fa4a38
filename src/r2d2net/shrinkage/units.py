"""Smaller networks: units that a fitted network does not need are cut out of every layer that has numbers for them.

    smaller = remove_units(posterior, x, threshold=0.5)
    smaller.net                        a plain, smaller nn.Module
    smaller.posterior.predict(new)     with the intervals of what is left

A unit can go if the weights that take it, or those that make it, say nothing: its score is the smaller of two sums of
weight scores, over its fan-out and over its fan-in with its bias. In nats ("saliency") that is the rise of the training
loss. Of units that pass a normalisation layer, or an activation that is not zero at zero, the fan-out alone counts, as
they are not zero where nothing makes them. Heads of attention go as a whole (`attention_units`). Of inputs of the
network, and of single positions of flattened images, linear layers forget the columns that say nothing, and read the
others (`SelectedLinear`).

The cut is checked: on the given rows the smaller network must return what the whole one does with the weights of the
units that go set to zero.
"""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError, PruningWarning, Value, require, require_whole
from r2d2net.nets.selected_linear import SelectedLinear
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.run.batches import take
from r2d2net.shrinkage.network_units import units_of
from r2d2net.shrinkage.pruning import PAIR, require_rows, standing
from r2d2net.shrinkage.smaller_network import LayerUnits, SmallerNetwork, plain_network
from r2d2net.shrinkage.unit_cut import Kept, Selection, cut_network, cut_posterior, with_padding_as_in
from r2d2net.shrinkage.unit_places import Units
from r2d2net.shrinkage.weight_scores import SCORES, Score, weight_scores

THRESHOLD = 0.5  # nats, by default
ROWS = 8  # by which the network is traced and the cut checked
FACTOR, BISECTIONS = 2.0, 3  # of "auto": between thresholds, and refinements


def remove_units(
    posterior: Posterior[PredictionT],
    x: Any,
    how: Literal["auto"] | None = None,
    *,
    threshold: float | None = None,
    keep: dict[str, int] | None = None,
    score: Score = "saliency",
    inputs: bool = True,
    validation: tuple[Any, Any] | None = None,
    draws: int = 20,
) -> SmallerNetwork[PredictionT]:
    """Cut the units that a fitted network does not need out of it.

    Args:
        posterior: The fitted network; it is not changed.
        x: A few rows of inputs in the user's units, with which the network is traced and the cut checked.
        how: "auto" cuts as far as ``validation`` allows: their mean log density stays within one standard error.
        threshold: Units whose score is below it go; 0.5 nats by default.
        keep: Numbers of units that are left of layers, by the layer's name, in place of a threshold.
        score: "saliency" or "snr", in nats, or "magnitude", sums of squares (see `weight_scores`).
        inputs: Whether linear layers may also forget inputs of the network and positions of flattened images.
        validation: Rows (x, y) of "auto", which were not used for training.
        draws: Posterior draws with which "auto" predicts them.

    Returns:
        The smaller network and its posterior.

    Raises:
        ParameterError: If an argument lies outside its range, the network cannot be traced, or the posterior does not
            hold what the score needs.
        DataError: If ``x`` does not fit the network.

    Warns:
        PruningWarning: If a layer would have lost all units: it keeps its best.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
        >>> net = rn.nets.mlp(8, [10], 1)
        >>> posterior = rn.fit(rn.BayesianModel(net), (x, x[:, 0] - x[:, 1]), "cavi", epochs=5)
        >>> smaller = remove_units(posterior, x, keep={"0": 4})
        >>> smaller.net[0].out_features
        4
    """
    require(score in SCORES, "score", score, f"use one of {', '.join(SCORES)}")
    require_whole("draws", draws)
    if not posterior.settings:
        raise ParameterError("was not made by fit", argument="posterior", fix="fit the network by r2d2net.fit")
    if sum(given is not None for given in (how, threshold, keep)) > 1:
        raise ParameterError("takes one of 'auto', threshold and keep", fix="leave the others out")
    cut = _Cut(posterior, x, score, inputs)
    if keep is not None:
        return cut.to(keep)
    if how is not None:
        require(how == "auto", "how", how, "use 'auto', or give threshold or keep")
        return cut.made(*_largest(cut, validation, draws))
    value = THRESHOLD if threshold is None else threshold
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    require(is_number and 0 <= value < math.inf, "threshold", value, "use a number from 0, such as 0.5")
    return cut.made(cut.below(float(value)), float(value))


class _Cut:
    """A posterior, the units of its network and what each is worth."""

    def __init__(self, posterior: Posterior[Any], x: Any, score: Score, inputs: bool) -> None:
        self.posterior, self.inputs = posterior, inputs
        values = weight_scores(posterior, score, nats=score == "snr")
        values = values.square() if score == "magnitude" else values
        self.values = {slot.name: slot.of(values) for slot in posterior.model.bayesian}
        self.net = plain_network(posterior)
        rows = posterior.network_inputs(x)
        self.rows = take(rows, slice(0, ROWS))
        self.units: Units = units_of(self.net, self.rows)
        if not self.units.layers:
            fix = "put them into an nn.Sequential, or remove weights by prune"
            raise ParameterError("has no layers inside", argument="net", fix=fix)
        self.roots = self.units.roots(torch.arange(self.units.count))
        self.scores = self._scores()

    def _scores(self) -> Tensor:
        """Return the score of each unit; infinite for those that stay."""
        count, units = self.units.count, self.units
        into, out = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        for place in units.places:
            total = {"in": into, "out": out}.get(place.role)
            if total is None:
                continue
            value = self.values.get(place.tensor)
            own = torch.full((len(place.units),), math.inf, dtype=torch.float64)
            if value is not None:
                own = value.double().cpu().movedim(place.dim, 0).reshape(len(own), -1).sum(1)
            if place.makes is not None:
                own = own.masked_fill(~place.makes, 0.0)
            total.index_add_(0, self.roots[place.units], own)
        for unit in units.moved:
            into[self.roots[unit]] = math.inf
        scores = torch.minimum(into, out)
        for unit in units.locked:
            scores[self.roots[unit]] = math.inf
        return scores[self.roots]

    def below(self, threshold: float) -> Tensor:
        """Return which units have a score below a threshold."""
        return self.scores < threshold

    def to(self, keep: dict[str, int]) -> SmallerNetwork[Any]:
        """Return the network with so many units in some layers."""
        gone = torch.zeros(self.units.count, dtype=torch.bool)
        for layer, count in keep.items():
            own = self.units.layers.get(layer)
            if own is None:
                names = ", ".join(map(repr, self.units.layers))
                raise ParameterError(("names no layer ", Value(layer)), argument="keep", fix=f"the layers are {names}")
            require_whole("keep", count)
            scores = self.scores[own]
            free = int(torch.isfinite(scores).sum())
            require(count <= len(own), "keep", {layer: count}, f"the layer has {len(own)} units")
            if len(own) - count > free:
                why = next((self.units.locked[u] for u in own.tolist() if u in self.units.locked), "not Bayesian")
                problem = f": {len(own) - free} units of {layer!r} stay ({why})"
                raise ParameterError(problem, argument="keep", value={layer: count}, fix="leave it out")
            gone[own[torch.topk(-scores, len(own) - count).indices]] = True
        gone = torch.isin(self.roots, self.roots[gone].unique())
        return self.made(gone, None)

    def made(self, gone: Tensor, threshold: float | None, *, quietly: bool = False) -> SmallerNetwork[Any]:
        """Return the network without some units, but for the best of layers that would lose all."""
        gone, notes = gone.clone(), []
        for layer, own in self.units.layers.items():
            if bool(gone[own].all()):
                best = own[self.scores[own].argmax()]
                gone[self.roots == self.roots[best]] = False
                notes.append(f"{layer or 'the layer'} would have lost all {len(own)} units and keeps its best")
        kept, selected, counts = self._places(gone, threshold, notes)
        if notes and not quietly:
            warnings.warn("; ".join(notes), PruningWarning, stacklevel=3)
        self._check(cut_network(self.net, kept, selected), kept, selected)
        posterior = cut_posterior(self.posterior, kept, selected)
        rows = [LayerUnits(n, len(u), int((~gone[u]).sum()), self._why(u)) for n, u in self.units.layers.items()]
        facts = {"units": [list(row) for row in (*rows, *counts)], "notes": notes}
        posterior.settings = {**posterior.settings, "smaller": facts}
        net = plain_network(posterior)
        return SmallerNetwork(net, posterior, (*counts, *rows), threshold, tuple(notes), self.posterior)

    def _why(self, own: Tensor) -> str:
        reasons = {self.units.locked[unit] for unit in own.tolist() if unit in self.units.locked}
        roots = set(self.roots[own].tolist())
        reasons |= {why for unit, why in self.units.locked.items() if int(self.roots[unit]) in roots}
        if not reasons and bool(torch.isinf(self.scores[own]).any()):
            reasons = {"weights without a prior"}
        return f"kept: {', '.join(sorted(reasons))}" if reasons else ""

    def _places(
        self, gone: Tensor, threshold: float | None, notes: list[str]
    ) -> tuple[Kept, dict[str, Selection], list[LayerUnits]]:
        """Return which entries of tensors stay, and the inputs that linear layers read."""
        kept: Kept = {}
        selected: dict[str, Selection] = {}
        counts: list[LayerUnits] = []
        for place in self.units.places:
            stay = ~gone[place.units]
            if place.role == "out":
                name = place.tensor.rpartition(".")[0]
                if name in self.units.columns:
                    read = self._read(name, place.units, stay, threshold, notes)
                    reaching = ~gone[self.units.columns[name]]
                    old = self.net.get_submodule(name)
                    before = old.kept.cpu() if isinstance(old, SelectedLinear) else torch.arange(len(reaching))
                    if not torch.equal(read, stay) or isinstance(old, SelectedLinear):
                        place_of = torch.cumsum(reaching, 0) - 1
                        selected[name] = Selection(place_of[before[read]], int(reaching.sum()))
                        counts.append(LayerUnits(f"inputs of {name}" if name else "inputs", len(stay), int(read.sum())))
                    stay = read
            if not bool(stay.all()):
                kept.setdefault(place.tensor, {})[place.dim] = torch.nonzero(stay).reshape(-1)
        return kept, selected, counts

    def _read(self, name: str, units: Tensor, stay: Tensor, threshold: float | None, notes: list[str]) -> Tensor:
        """Return which columns of a linear layer stay: of units that stay, and not themselves without a say."""
        weight = f"{name}.weight".lstrip(".")
        value = self.values.get(weight)
        slot = next((s for s in self.posterior.model.bayesian if s.name == weight), None)
        about_inputs = slot is not None and slot.prior is not None and slot.prior.for_inputs
        if not self.inputs or threshold is None or value is None or about_inputs:
            return stay
        roots = self.roots[units]
        times = torch.bincount(roots, minlength=self.units.count)[roots]
        locked = torch.isinf(self.scores[units])
        scores = value.double().cpu().sum(0)
        read = stay & ~((scores < threshold) & (locked | (times > 1)))
        if not bool(read.any()):
            best = torch.where(stay, scores, -1.0).argmax()
            read[best] = True
            notes.append(f"{name or 'the layer'} would have lost all {len(stay)} inputs and keeps its best")
        return read

    @torch.no_grad()
    def _check(self, small: nn.Module, kept: Kept, selected: dict[str, Selection]) -> None:
        """Compare with the whole network, the weights that take removed units set to zero."""
        whole = plain_network(self.posterior)
        with_padding_as_in(whole, small)
        tensors = dict(whole.named_parameters())
        for place in self.units.places:
            places = kept.get(place.tensor, {}).get(place.dim)
            if place.role == "out" and places is not None:
                mask = torch.zeros(tensors[place.tensor].shape[place.dim], dtype=torch.bool)
                mask[places] = True
                away = torch.nonzero(~mask).reshape(-1).to(tensors[place.tensor].device)
                tensors[place.tensor].index_fill_(place.dim, away, 0.0)
        arguments = self.rows if isinstance(self.rows, tuple) else (self.rows,)
        expected = whole(*arguments)
        try:
            found = small(*arguments)
            difference = float((found - expected).abs().max())
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            fix = "write its sizes by those of tensors, or remove weights by prune"
            raise ParameterError(f"cannot run with fewer units: {reason}", argument="net", fix=fix) from error
        precision = 1e-4 if expected.dtype == torch.float32 else 1e-8
        if not difference <= precision * (1 + float(expected.abs().max())):
            fix = "remove weights by prune"
            problem = f"computes something else with fewer units (outputs differ by {difference:.3g})"
            raise ParameterError(problem, argument="net", fix=fix)


def _largest(cut: _Cut, validation: tuple[Any, Any] | None, draws: int) -> tuple[Tensor, float]:
    """Return the units that "auto" removes, and the threshold."""
    if validation is None:
        raise ParameterError("needs validation rows", argument="how", value="auto", fix=("give ", PAIR))
    rows = require_rows(validation, "validation", least=2)
    whole = standing(cut.posterior, rows, draws)
    least = whole.log_density - whole.standard_error

    def passes(threshold: float) -> bool:
        found = cut.made(cut.below(threshold), threshold, quietly=True)
        return standing(found.posterior, rows, draws).log_density >= least

    finite = cut.scores[torch.isfinite(cut.scores) & (cut.scores > 0)]
    low, high = 0.0, float(finite.min()) if len(finite) else THRESHOLD
    most = FACTOR * float(finite.max()) if len(finite) else high
    while high <= most and passes(high):
        low, high = high, FACTOR * high
    if high > most:
        return cut.below(low), low
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high) if low > 0 else high / 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return cut.below(low), low
