"""Has a sampler arrived? R-hat and effective sample sizes of its draws, through arviz-stats.

    R-hat      how much wider the draws of all chains together spread than those of each chain: 1 in the limit, below
               1.01 in practice (rank-normalised and split, so that it sees drift within a chain and heavy tails too;
               of a single chain, the halves are compared)
    ESS        so many independent draws would know the mean ("bulk") or the 5% and 95% quantiles ("tail") as well

(Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021). Weights of a network are not identified: hidden units can trade
places, and chains that disagree on weights may agree on everything that can be seen. So look at predictions first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import ParameterError, require_whole
from r2d2net.inference.collection import CollectionState, merged
from r2d2net.posterior import Posterior

LEAST_DRAWS = 4  # of a chain: split in two halves, each has a variance


@dataclass(frozen=True)
class Convergence:
    """R-hat, effective sample sizes and Monte Carlo standard error of the mean, each in the shape of what was sampled.

    A quantity that does not vary at all has R-hat nan. ``divergences`` counts HMC's transitions after the warm-up that
    left their path: draws near there are missing, and a larger ``target_accept`` helps.
    """

    rhat: Tensor
    ess_bulk: Tensor
    ess_tail: Tensor
    mcse: Tensor
    divergences: int = 0

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat; nan where nothing varies."""
        return float(np.nanmax(self.rhat.numpy())) if not bool(self.rhat.isnan().all()) else float("nan")

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size, bulk or tail."""
        return float(torch.minimum(self.ess_bulk, self.ess_tail).min())


def of_predictions(posterior: Posterior | Sequence[Posterior], x: Any) -> Convergence:
    """Convergence of what the draws predict at ``x``: E[y | w] of each row, or its class probabilities.

    Args:
        posterior: A posterior of stored draws (SGLD, SGHMC or HMC), or several, which are then chains of one.
        x: Inputs as in training.
    """
    parts = _parts(posterior)
    fewest = min(part.state.weights.shape[1] for part in parts)
    predicted = []
    for part in parts:  # each in its own units
        chains, draws = part.state.weights.shape[:2]
        samples = part.predict(x, draws=chains * draws).samples  # all of them, in their order
        predicted.append(samples.unflatten(0, (chains, draws))[:, -fewest:])
    return replace(diagnose(torch.cat(predicted)), divergences=_divergences(parts))


def of_weights(posterior: Posterior | Sequence[Posterior], most: int | None = 1000) -> Convergence:
    """Convergence of the weights.

    Args:
        posterior: A posterior of stored draws (SGLD, SGHMC or HMC), or several, which are then chains of one.
        most: Look at so many weights, evenly spread over the network (a thousand take a second or two); None at all.
    """
    if most is not None:
        require_whole("most", most)
    parts = _parts(posterior)
    weights = merged([part.state for part in parts]).weights
    count = weights.shape[2]
    if most is not None and count > most:
        weights = weights[:, :, torch.linspace(0, count - 1, most, device=weights.device).long()]
    return replace(diagnose(weights), divergences=_divergences(parts))


def diagnose(draws: Tensor) -> Convergence:
    """Convergence of any quantities from their draws (chains, draws, ...)."""
    if draws.dim() < 2 or draws.shape[1] < LEAST_DRAWS:
        raise ParameterError(
            f"draws has shape {tuple(draws.shape)}: (chains, draws, ...) with {LEAST_DRAWS} draws or more are needed"
        )
    stats, array = _array_stats(), draws.detach().cpu().double().numpy()
    half = array.shape[1] // 2
    compared = array if len(array) > 1 else np.concatenate([array[:, :half], array[:, -half:]])  # arviz wants two
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):  # of what does not vary
        found = (
            stats.rhat(compared, **axes),
            stats.ess(array, method="bulk", **axes),
            stats.ess(array, method="tail", prob=(0.05, 0.95), **axes),
            stats.mcse(array, method="mean", **axes),
        )
    rhat, bulk, tail, mcse = (torch.as_tensor(np.asarray(one, dtype=np.float64)) for one in found)
    return Convergence(rhat, bulk, tail, mcse)


def _parts(posterior: Posterior | Sequence[Posterior]) -> list[Posterior]:
    """Posteriors whose chains are compared."""
    parts = [posterior] if isinstance(posterior, Posterior) else list(posterior)
    if not parts:
        raise ParameterError("posterior=[] is out of range: give at least one posterior")
    for part in parts:
        if not isinstance(part, Posterior):
            raise ParameterError(f"posterior holds a {type(part).__name__}: give what fit returns")
        is_ensemble = part.settings.get("algorithm", {}).get("type") == "DeepEnsemble"
        if not isinstance(part.state, CollectionState) or is_ensemble:
            name = part.settings.get("algorithm", {}).get("type", "this algorithm")
            raise ParameterError(f"{name} has no chain of draws: R-hat and ESS are for SGLD, SGHMC and HMC")
        same = part.state.weights.shape[2] == parts[0].model.size
        if not same or type(part.model.likelihood) is not type(parts[0].model.likelihood):
            raise ParameterError("the posteriors are of different models: chains must be of one")
        if part.settings.get("data") != parts[0].settings.get("data"):
            raise ParameterError("the posteriors are of different data: chains must be of one problem")
    return parts


def _divergences(parts: Sequence[Posterior]) -> int:
    return sum(int(part.state.divergences.sum()) for part in parts)


def _array_stats() -> Any:
    try:
        from arviz_stats.base import array_stats  # type: ignore[attr-defined]
    except ImportError as error:
        raise ParameterError("R-hat and ESS need arviz-stats: pip install 'r2d2net[mcmc]'") from error
    return array_stats
