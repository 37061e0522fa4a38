"""Does a finished fit make sense on its own training rows? Looked at once, at the end of every fit.

    error_ratio   RMSE / sd(y)  or  log loss / entropy of the class frequencies: 1 is the best constant
    spread        variance of the predicted means over the rows, as a share of that of y (or of the classes' codes)
    linear_r2     1 - (leave-one-out squared error of ridge regression, best of `PENALTIES`) / (that of the mean)
    swing         sd of the predicted means at rows made of shuffled columns / sd(y)
    r_hat         of chains alone: largest split R-hat of the predictions of up to 64 rows, over up to 50 draws of each
    effective_draws   of chains alone: least number of independent draws that those predictions are worth
    chain_share   of chains alone: variance of the means of half-chains, as a share of the predictive variance

and the verdict, the first that holds of

    "worse than a constant"   error_ratio > 1.1                       and, for classes, 0.05 nats more than the entropy
    "collapsed to a constant" spread < 0.01 although linear_r2 > 0.5  at least 20 rows of a table
    "wild at new rows"        swing > 2                               a table with more columns than rows
    "no better than a constant"   0.98 < error_ratio <= 1.1           which may be right: there is nothing to find
    "fits"                    none of these
    "not checked"             a stream without validation rows, or a likelihood whose predictions are of another kind

The third is about samplers that have not mixed: with more columns than rows a chain may fit its training rows while its
weights are anywhere in the directions that these rows do not see. Shuffling each column by itself makes rows with the
same marginals that have a share in all directions.

At most 256 rows of a table and 20 draws are predicted (64 rows and 10 draws of images and the like), by a generator of
their own: the posterior is bitwise the same as without the look.

Beside these, where rows times weights are few enough for half a second: slope and spread of the objective
(`stationarity`), k-hat of a mean-field posterior (`importance_check`), the log density of rows left out, also beside
that of a constant, and a predictive p-value (`predictive_check`), and whether the loss had levelled off (`levelling`).
`health_line` says which of them are flagged, and all of it in one line.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import FitWarning
from r2d2net.forward_draws import forward_draws
from r2d2net.inference import DrawSource
from r2d2net.inference.base import Draws
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.inference.split_r_hat import effective_draws, split_r_hat
from r2d2net.likelihoods.masked import has_missing, masked_for
from r2d2net.model import BayesianModel
from r2d2net.network_inputs import no_units
from r2d2net.position_predictions import PositionClasses
from r2d2net.posterior import MEMORY, Posterior
from r2d2net.prediction import Classification, Mixture
from r2d2net.run.batches import TensorBatches, take
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.health_line import are_far_from_mixed, flags, has_run_away, is_below_constant, line, not_mixed
from r2d2net.run.importance_check import k_hat
from r2d2net.run.levelling import levelled_off
from r2d2net.run.predictive_check import KEPT_ROWS, leave_one_out, p_value
from r2d2net.run.prepare import Prepared
from r2d2net.run.stationarity import stationarity

ROWS, DRAWS = 256, 20  # of tables
FEW_ROWS, FEW_DRAWS = 64, 10  # of anything else
WORSE, LEAST_NATS = 1.1, 0.05
COLLAPSED, OBVIOUS, LEAST_ROWS = 0.01, 0.5, 20
WILD = 2.0
BY_ORDERS = 1000.0  # times the error of the best constant: training has left the data
USELESS = 0.98
PENALTIES = tuple(10.0**k for k in range(-3, 4))  # of ridge regression, times the mean eigenvalue of X X'

LOO_DRAWS = 200
MOST_WORK = 1 << 29  # rows times weights times passes of the deep look
WORK_PASSES = 256  # of stationarity and k-hat, a gradient counted as three

CHAIN_DRAWS = (4, 50)  # fewest and most draws of a chain of which agreement is computed

FITS, NOT_CHECKED = "fits", "not checked"
WORSE_THAN_CONSTANT, CONSTANT, SWINGS = "worse than a constant", "collapsed to a constant", "wild at new rows"
NO_BETTER = "no better than a constant"


def look_at(source: DrawSource[Any], prepared: Prepared, history: Sequence[Mapping[str, float]] = ()) -> dict[str, Any]:
    """Judge a fit by its own training rows.

    Args:
        source: The distribution of networks.
        prepared: The data of the run. Of a stream the validation rows are looked at.
        history: One entry for each epoch of a run that optimises; none of a sampler.

    Returns:
        A dict for JSON: "verdict", and what it is based on: "rows", "error_ratio", "spread", "linear_r2", "swing"; of
        chains also "r_hat", "effective_draws" and "chain_share". "linear" says whether the network is one linear layer;
        of numbers "noise" and "residual" are the deviation of the noise and the RMSE, in deviations of the target.
        Where they can be computed in short time, "k_hat", "slope", "spread_ratio", "spread_error", "elpd",
        "elpd_error", "elpd_gain", "elpd_gain_error", "row_scores", "loo_k", "loo_bad", "loo_exact", "p_value" and
        "levelled". "flags" lists what is wrong, "line" says it all for people.
    """
    health = _measure(source, prepared, history)
    health["flags"] = flags(health)
    return {**health, "line": line(health)}


def _measure(source: DrawSource[Any], prepared: Prepared, history: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    seen = _rows(prepared, source)
    if seen is None:
        return {"verdict": NOT_CHECKED}
    x, y = seen
    is_table = isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()
    posterior: Posterior[Any] = Posterior(
        source, no_units(torch.zeros((), dtype=source.model.dtype)), flat_target=False
    )
    scale = source.model.likelihood.on_network_scale()
    if scale is not source.model.likelihood:  # targets are looked at as the network sees them
        posterior = copy.copy(posterior)
        posterior.source = copy.copy(source)
        posterior.source.model = source.model.with_likelihood(scale)
    device, draws = source.model.device, DRAWS if is_table else FEW_DRAWS
    with lent_generator(0, device):
        predicted = posterior.predict(x, draws, seed=0)
        if not isinstance(predicted, (Mixture, Classification)) or isinstance(predicted, PositionClasses):
            return {"verdict": NOT_CHECKED}
        health = {"rows": len(y), "linear": source.model.is_linear, **_fit(predicted, y)}
        if is_table and x.shape[1] > prepared.batches.n and health["error_ratio"] is not None:
            columns = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).argsort(0).to(device)
            elsewhere = posterior.predict(x.gather(0, columns), draws, seed=0)
            health["swing"] = _ratio(
                _codes(elsewhere).std(0, correction=0), _targets(predicted, y).std(0, correction=0)
            )
        health.update(_agreement(posterior, take(x, slice(0, FEW_ROWS))))
    if is_table and len(y) >= LEAST_ROWS and health["spread"] is not None and health["spread"] < COLLAPSED:
        health["linear_r2"] = linear_r2(x, _targets(predicted, y))
    level = levelled_off(history)
    health.update({} if level is None else {"levelled": level})
    with lent_generator(0, device):
        health.update(_deep_look(posterior, prepared, x, y))
    if scale is not source.model.likelihood:
        health.pop(KEPT_ROWS, None)  # they are of a function of the target, and would be compared with those of itself
    if prepared.validation is not None:  # whose rows the p-value is of
        health.pop("residual", None)
    return {"verdict": verdict(health), **health}


def _deep_look(posterior: Posterior[Any], prepared: Prepared, x: Any, y: Tensor) -> dict[str, Any]:
    """Return what takes more passes than a prediction, of posteriors of small networks for tables."""
    source, batches = posterior.source, prepared.batches
    model = source.model
    draws = min(LOO_DRAWS, MOST_WORK // (max(1, model.size) * len(y)))
    if not (isinstance(x, Tensor) and x.dim() == 2 and isinstance(batches, TensorBatches)) or draws < 1:
        return {}
    if not prepared.is_whole:  # what is looked at here is the posterior of these rows
        return {}
    found: dict[str, Any] = {}
    if batches.n * model.size <= MOST_WORK // WORK_PASSES:
        if isinstance(source, MeanFieldDraws):
            found["k_hat"] = k_hat(source, batches.x, batches.y)
        measured = stationarity(source, batches.x, batches.y)
        if measured is not None:
            found |= {"slope": measured.slope, "spread_ratio": measured.spread, "spread_error": measured.error}
    available = source.available
    drawn = source.joined(draws if available is None else min(draws, available), _generator(model.device))
    found |= leave_one_out(source, prepared, _outputs(model, drawn, x), drawn, y)
    few = Draws(*(_first(part, DRAWS) for part in drawn))
    held = prepared.validation
    if held is None:
        found["p_value"] = p_value(model.likelihood, _outputs(model, few, x), few.noise, y, jointly=False)
    else:
        inputs = Posterior(source, prepared.units, flat_target=False).network_inputs(take(held[0], slice(0, ROWS)))
        target = prepared.units.targets(
            model.likelihood.network_scale(model.likelihood.target(held[1][:ROWS])).to(y.dtype)
        )
        found["p_value"] = p_value(model.likelihood, _outputs(model, drawn, inputs), drawn.noise, target, jointly=True)
    return found


def _outputs(model: BayesianModel[Any], drawn: Draws, x: Tensor) -> Tensor:
    with torch.no_grad():
        return forward_draws(model, drawn, x, rows=len(x), memory=MEMORY)


def _first(part: Any, count: int) -> Any:
    """Return the first draws of tensors of draws: evenly spaced ones."""
    if isinstance(part, dict):
        return {name: _first(tensor, count) for name, tensor in part.items()}
    return part[:: max(1, len(part) // count)][:count]


def _generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def verdict(health: dict[str, Any]) -> str:
    """Return the verdict on what `look_at` measured."""
    error, spread = health["error_ratio"], health["spread"]
    if error is not None and not error <= WORSE and not health.get("excess", 1.0) <= LEAST_NATS:
        return WORSE_THAN_CONSTANT
    if spread is not None and spread < COLLAPSED and health.get("linear_r2", 0.0) > OBVIOUS:
        return CONSTANT
    if (health.get("swing") or 0.0) > WILD:
        return SWINGS
    return NO_BETTER if error is not None and USELESS < error <= WORSE else FITS


def found_nothing(health: dict[str, Any]) -> bool:
    """Tell whether a network predicts no better than a constant, so that no input can be said to matter.

    Args:
        health: What `look_at` returned.
    """
    return health.get("verdict") in (WORSE_THAN_CONSTANT, CONSTANT, NO_BETTER)


def warn_of(health: dict[str, Any], algorithm: str) -> None:
    """Warn in one line if a fit does not make sense, and in one if its chains are far from mixed.

    Args:
        health: What `look_at` returned.
        algorithm: Name of the algorithm.
    """
    found = health.get("verdict")
    more = "use more epochs" if algorithm == "SVGI" else "use more epochs, or algorithm='svgi'"
    if (health.get("error_ratio") or 0.0) > BY_ORDERS:
        more = f"use a smaller lr, or look for extreme values; {more}"
    if found == WORSE_THAN_CONSTANT:
        how = f"its error on training rows is {health['error_ratio']:.3g} times that of the best constant"
    elif found == CONSTANT:
        how = f"its predictions hardly differ, and linear regression explains {health['linear_r2']:.0%} of the variance"
    elif found == SWINGS:
        how = f"its predictions away from the training rows vary {health['swing']:.3g} times as much as the targets"
    else:
        how = ""
    if how:
        warnings.warn(f"the fit by {algorithm} is {found}: {how}; {more}", FitWarning, stacklevel=3)
    elif has_run_away(health):
        how = f"{health['noise'] / max(health['residual'], 1e-9):.3g} times its residuals"
        warnings.warn(f"the fit by {algorithm} has noise {how}; {more}", FitWarning, stacklevel=3)
    if are_far_from_mixed(health):
        fix = _more_of(algorithm, is_linear=health.get("linear", False))
        warnings.warn(f"the fit by {algorithm}: {not_mixed(health)}; {fix}", FitWarning, stacklevel=3)
    elif "r_hat" in health and is_below_constant(health):
        how = f"rows left out have {-health['elpd_gain']:.2g} nats less than by a constant"
        fix = _more_of(algorithm, is_linear=health.get("linear", False))
        warnings.warn(f"the fit by {algorithm} knows its training rows alone: {how}; {fix}", FitWarning, stacklevel=3)


def _more_of(algorithm: str, *, is_linear: bool) -> str:
    """Say what helps chains."""
    if is_linear and algorithm != "LinearGibbs":
        return "use more epochs, or algorithm='lineargibbs', which is exact for normal noise and for classes"
    if not is_linear and algorithm != "MCLMC":
        return "use more epochs, or algorithm='mclmc'"
    return "use more epochs"


# --- what is measured


def _rows(prepared: Prepared, source: DrawSource[Any]) -> tuple[Any, Tensor] | None:
    """Return up to 256 rows of a table, else 64, evenly spaced, as the network sees them."""
    if isinstance(prepared.batches, TensorBatches):
        x, y = prepared.batches.x, prepared.batches.y
    elif prepared.validation is not None:
        likelihood = source.model.likelihood
        x, held = prepared.validation
        y = likelihood.network_scale(masked_for(likelihood, held).target(held))
        x, y = prepared.units.inputs(x), prepared.units.targets(y)
    else:
        return None
    if has_missing(y):  # rows whose targets are all there
        whole = (~y.isnan().any(1)).nonzero()[:, 0]
        if len(whole) < LEAST_ROWS:
            return None
        x, y = take(x, whole), y[whole]
    most = ROWS if isinstance(x, Tensor) and x.dim() == 2 else FEW_ROWS
    rows = torch.linspace(0, len(y) - 1, min(len(y), most), device=y.device).round().long()
    return take(x, rows), y[rows]


def _fit(predicted: Mixture | Classification, y: Tensor) -> dict[str, Any]:
    """Return the error as a multiple of the best constant's, and the predicted share of the variance."""
    target, mean = _targets(predicted, y), _codes(predicted)
    spread = _ratio(mean.var(0, correction=0).sum(), target.var(0, correction=0).sum())
    if not isinstance(predicted, Classification):
        squares = (mean - target).square().mean(0)
        deviation = target.std(0, correction=0)
        noise = predicted.aleatoric.double().reshape(len(mean), -1).square().mean(0).sqrt()
        unit = torch.where(deviation > 0, deviation, 1.0)  # a constant target is in the network's own units
        return {
            "error_ratio": _ratio(squares.sqrt(), deviation),
            "spread": spread,
            "noise": float((noise / unit).max()),
            "residual": float((squares.sqrt() / unit).max()),
        }
    shares = target.mean(0)
    entropy = float(-torch.xlogy(shares, shares).sum())
    loss = float(-torch.log((mean * target).sum(1).clamp(min=torch.finfo(mean.dtype).tiny)).mean())
    return {"error_ratio": loss / entropy if entropy > 0 else None, "spread": spread, "excess": loss - entropy}


def _agreement(posterior: Posterior[Any], x: Any) -> dict[str, float]:
    """Return what chains agree on and are worth, by their predictions; nothing where there are no chains."""
    source = posterior.source
    if not source.are_chains or source.state.weights.shape[1] < CHAIN_DRAWS[0]:
        return {}
    chains, draws = source.state.weights.shape[:2]
    each = min(draws, CHAIN_DRAWS[1])
    predicted = posterior.predict(x, chains * each, seed=0)
    samples = predicted.samples.double().unflatten(0, (chains, each)).flatten(2)
    if isinstance(predicted, Classification):
        variance = samples.mean((0, 1)) * (1 - samples.mean((0, 1)))
    else:
        variance = predicted.std.double().reshape(-1).square()
    halves = torch.cat([samples[:, : each // 2], samples[:, -(each // 2) :]]).mean(1)
    varies = variance > 0
    shares = halves.var(0, correction=0)[varies] / variance[varies]
    return {
        "r_hat": float(split_r_hat(samples).max()),
        "effective_draws": float(effective_draws(samples).min()),
        "chain_share": float(shares.mean()) if len(shares) else 0.0,
    }


def _codes(predicted: Any) -> Tensor:
    """Return predicted means, or class probabilities, (rows, outputs)."""
    mean: Tensor = predicted.mean.double()
    return mean.reshape(len(mean), -1)


def _targets(predicted: Any, y: Tensor) -> Tensor:
    """Return targets in the form of `_codes`: real numbers, or one column for each class."""
    if isinstance(predicted, Classification):
        return torch.nn.functional.one_hot(y.reshape(-1).long(), predicted.mean.shape[-1]).double()
    return y.double().reshape(len(y), -1)


def _ratio(above: Tensor, below: Tensor) -> float | None:
    """Return the largest ratio over the outputs, leaving out those that do not vary; None where none does."""
    above, below = above.reshape(-1), below.reshape(-1)
    varies = below > 0
    return float((above[varies] / below[varies]).max()) if bool(varies.any()) else None


def linear_r2(x: Tensor, y: Tensor) -> float:
    """Compute the share of the variance that ridge regression explains of rows left out, one at a time.

    With K = X X' of centred columns and H = K (K + l I)^-1 + 1/n, the residual of row i left out is
    (y - H y)_i / (1 - H_ii).

    Args:
        x: Inputs, (rows, columns).
        y: Targets, (rows, outputs).

    Returns:
        The best share over `PENALTIES`, of all outputs together; below 0 where nothing is explained.
    """
    n, x = len(y), x.double()
    x, y = x - x.mean(0), y.double() - y.double().mean(0)
    values, vectors = torch.linalg.eigh(x @ x.T)
    constant = y.square().sum() * (n / (n - 1)) ** 2
    shares = [0.0]
    for penalty in PENALTIES:
        shrunk = values.clamp(min=0) / (values.clamp(min=0) + penalty * values.mean().clamp(min=1e-300))
        fitted = vectors @ (shrunk[:, None] * (vectors.T @ y))
        left = 1 - 1 / n - (vectors.square() @ shrunk)
        residual = (y - fitted) / left.clamp(min=1e-12)[:, None]
        shares.append(float(1 - residual.square().sum() / constant))
    return max(shares)
