"""Networks that have not seen the rows by which the randomization test judges them: fits outside each fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit
from r2d2net.shrinkage.randomization_test import LeftOut
from r2d2net.shrinkage.relevance import input_relevance
from r2d2net.shrinkage.selection_models import SelectionModels, models_for
from r2d2net.specification import method_from

LEAST = 0.002  # share of a network's variance from which it is asked about an input
MOST_ASKED = 60  # inputs that a network is asked about, those of the largest shares
RELEVANCE_DRAWS = 30  # of the relevance by which inputs are asked about
Refit = Callable[[Tensor, Any], Posterior[Any] | Sequence[Posterior[Any]]]


def left_out_networks(
    posterior: Posterior[Any] | None,
    table: Tensor,
    targets: Tensor,
    inputs: Sequence[Sequence[int]],
    *,
    folds: int | Literal["left out"],
    refit: Refit | None,
    seed: int,
) -> list[LeftOut]:
    """Fit networks to the rows outside each fold, or take a posterior that has seen none of the rows.

    Args:
        posterior: The posterior; None only with ``refit``.
        table: The table.
        targets: Their targets.
        inputs: Columns of each input.
        folds: Number of folds, or "left out".
        refit: Fits one network or several to rows, in place of the posterior's own model.
        seed: Seed of the folds.

    Returns:
        The networks with the rows that they have not seen and the inputs that they use.
    """
    fitted: list[LeftOut] = []
    if isinstance(folds, str):
        require(posterior is not None, "posterior", posterior, "give the posterior that has not seen the rows")
        assert posterior is not None
        return [LeftOut(posterior, torch.arange(len(table)), _used(posterior, table, inputs, seed))]
    again = refit or _again(posterior)
    parts = _folds(targets, int(folds), seed)
    rests = [np.setdiff1d(np.arange(len(table)), part) for part in parts]
    for part, rest, networks in zip(parts, rests, _fits(again, table, targets, rests), strict=True):
        seen, own = table[rest], torch.from_numpy(part)
        fitted += [LeftOut(network, own, _used(network, seen, inputs, seed)) for network in networks]
    return fitted


def _folds(targets: Tensor, count: int, seed: int) -> list[np.ndarray]:
    """Divide the rows at random; classes, and counts, are spread evenly over the folds."""
    rows = len(targets)
    order = np.random.default_rng(seed).permutation(rows)
    if not targets.is_floating_point() and targets.dim() == 1:
        order = order[targets.numpy()[order].argsort(kind="stable")]
    return [np.sort(order[start::count]) for start in range(min(count, rows))]


def _fits(
    again: Refit, table: Tensor, targets: Tensor, parts: Sequence[np.ndarray]
) -> Iterator[Sequence[Posterior[Any]]]:
    """Fit to each part of the rows; our own models to all parts at once."""
    if isinstance(again, SelectionModels):
        yield from again.of_folds([(table[rows], targets[rows]) for rows in parts])
        return
    for rows in parts:
        found = again(table[rows], targets[rows])
        yield [found] if isinstance(found, Posterior) else found


def _again(posterior: Posterior[Any] | None) -> Refit:
    """Return a function that fits the posterior's model to other rows by its own algorithm."""
    settings = {} if posterior is None else posterior.settings
    known = {"algorithm", "epochs", "seed"} <= settings.keys()
    require(known, "posterior", posterior, "give one that `fit` made, or `refit`")
    assert posterior is not None
    if "stack" in settings:
        return models_for(posterior.model.likelihood, settings["stack"]["network"]["outputs"], settings["seed"])
    model, method = posterior.model, method_from(settings["algorithm"])
    kept = {name: settings[name] for name in ("epochs", "seed", "standardize")}
    return lambda x, y: fit(model, (x.to(model.dtype), y), method, **kept, verbose=False)


def _used(network: Posterior[Any], x: Tensor, inputs: Sequence[Sequence[int]], seed: int) -> Tensor:
    """Whether a network uses each input enough to be asked about it, by rows that it may have seen."""
    share = input_relevance(network, x, groups=inputs, draws=RELEVANCE_DRAWS, shuffles=1, seed=seed).mean
    used = share >= LEAST
    if int(used.sum()) > MOST_ASKED:
        used &= share >= share.sort(descending=True).values[MOST_ASKED - 1]
    return used.cpu()
