"""Convergence of a sampler: R-hat and effective sample sizes of its draws, computed by arviz-stats.

    R-hat      ratio of the spread of the draws of all chains together to the spread within each chain: 1 in the limit,
               below 1.01 in practice (rank-normalised and split, so that it also detects drift within a chain and heavy
               tails; of a single chain, the halves are compared)
    ESS        number of independent draws that would estimate the mean ("bulk") or the 5% and 95% quantiles ("tail")
               with the same accuracy

(Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021). The weights of a network are not identified: hidden units can
be exchanged, and chains that disagree on weights may agree on every prediction. So look at predictions first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Shown, Value, require_whole
from r2d2net.inference.collection import merged
from r2d2net.posterior import Posterior

LEAST_DRAWS = 4  # draws of a chain, so that each of its halves has a variance


@dataclass(frozen=True)
class Convergence:
    """Convergence of sampled quantities; tensors have the shape of one draw of them.

    Attributes:
        rhat: R-hat; nan for a quantity that does not vary at all.
        ess_bulk: Effective sample size for the mean.
        ess_tail: Effective sample size for the 5% and 95% quantiles.
        mcse: Monte Carlo standard error of the mean.
        divergences: Number of HMC's transitions after the warm-up whose energy error diverged: the region around them
            is undersampled, and a larger ``target_accept`` helps.
    """

    rhat: Tensor
    ess_bulk: Tensor
    ess_tail: Tensor
    mcse: Tensor
    divergences: int = 0

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat; nan if no quantity varies."""
        return float(np.nanmax(self.rhat.numpy())) if not bool(self.rhat.isnan().all()) else float("nan")

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size, bulk or tail."""
        return float(torch.minimum(self.ess_bulk, self.ess_tail).min())


def of_predictions(posterior: Posterior | Sequence[Posterior], x: Any) -> Convergence:
    """Diagnose the predictions of the draws at ``x``: E[y | w] of each row, or its class probabilities.

    Args:
        posterior: A posterior of stored draws (SGLD, SGHMC or HMC), or several, whose chains are then compared.
        x: Inputs as in training.

    Returns:
        The convergence of each prediction.

    Raises:
        ParameterError: If a posterior stores no chain of draws, or the posteriors are of different problems.
    """
    parts = _parts(posterior)
    fewest = min(part.source.state.weights.shape[1] for part in parts)
    predicted = []
    for part in parts:  # each in its own units
        chains, draws = part.source.state.weights.shape[:2]
        samples = part.predict(x, draws=chains * draws).samples  # all of them, in their order
        predicted.append(samples.unflatten(0, (chains, draws))[:, -fewest:])
    return replace(diagnose(torch.cat(predicted)), divergences=_divergences(parts))


def of_weights(posterior: Posterior | Sequence[Posterior], most: int | None = 1000) -> Convergence:
    """Diagnose the weights.

    Args:
        posterior: A posterior of stored draws (SGLD, SGHMC or HMC), or several, whose chains are then compared.
        most: Largest number of weights to diagnose, evenly spread over the network (a thousand take a second or two);
            None for all weights.

    Returns:
        The convergence of each weight.

    Raises:
        ParameterError: If a posterior stores no chain of draws, or the posteriors are of different problems.
    """
    if most is not None:
        require_whole("most", most)
    parts = _parts(posterior)
    weights = merged([part.source.state for part in parts]).weights
    count = weights.shape[2]
    if most is not None and count > most:
        weights = weights[:, :, torch.linspace(0, count - 1, most, device=weights.device).long()]
    return replace(diagnose(weights), divergences=_divergences(parts))


def diagnose(draws: Tensor) -> Convergence:
    """Diagnose any quantities from their draws.

    Args:
        draws: Draws of shape (chains, draws, ...), at least 4 of each chain.

    Returns:
        The convergence of each quantity, in the shape of one draw.

    Raises:
        ParameterError: If there are too few draws, or arviz-stats is not installed.
    """
    if draws.dim() < 2 or draws.shape[1] < LEAST_DRAWS:
        fix = f"(chains, draws, ...) with {LEAST_DRAWS} draws or more are needed"
        raise ParameterError(("has shape ", Value(tuple(draws.shape))), argument="draws", fix=fix)
    stats, array = _array_stats(), draws.detach().cpu().double().numpy()
    half = array.shape[1] // 2
    compared = array if len(array) > 1 else np.concatenate([array[:, :half], array[:, -half:]])  # arviz wants two
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):  # for quantities that do not vary
        measures = (
            stats.rhat(compared, **axes),
            stats.ess(array, method="bulk", **axes),
            stats.ess(array, method="tail", prob=(0.05, 0.95), **axes),
            stats.mcse(array, method="mean", **axes),
        )
    rhat, bulk, tail, mcse = (torch.as_tensor(np.asarray(measure, dtype=np.float64)) for measure in measures)
    return Convergence(rhat, bulk, tail, mcse)


def _parts(posterior: Posterior | Sequence[Posterior]) -> list[Posterior]:
    """List the posteriors whose chains are compared, after checking that they are of one problem."""
    parts = [posterior] if isinstance(posterior, Posterior) else list(posterior)
    if not parts:
        raise ParameterError("is out of range", argument="posterior", value=[], fix="give at least one posterior")
    for part in parts:
        if not isinstance(part, Posterior):
            raise ParameterError(("holds a ", Value(type(part))), argument="posterior", fix="give what fit returns")
        if not part.source.are_chains:
            name = part.settings.get("algorithm", {}).get("type", "this algorithm")
            fix = "R-hat and ESS are for the chains of a sampler, such as HMC"
            raise ParameterError("has no chain of draws", value=Shown(name), fix=fix)
        same = part.source.state.weights.shape[2] == parts[0].model.size
        if not same or type(part.model.likelihood) is not type(parts[0].model.likelihood):
            raise ParameterError("the posteriors are of different models", fix="chains must be of one")
        if part.settings.get("data") != parts[0].settings.get("data"):
            raise ParameterError("the posteriors are of different data", fix="chains must be of one problem")
    return parts


def _divergences(parts: Sequence[Posterior]) -> int:
    return sum(int(part.source.state.divergences.sum()) for part in parts)


def _array_stats() -> Any:
    try:
        from arviz_stats.base import array_stats  # type: ignore[attr-defined]
    except ImportError as error:
        raise ParameterError("R-hat and ESS need arviz-stats", fix="pip install 'r2d2net[mcmc]'") from error
    return array_stats
