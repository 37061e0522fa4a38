"""Leave-one-out predictions of a linear model that `LinearGibbs` fitted, without fitting again.

    log p(y_i | y_-i)  =  log sum_d w_di p(y_i | y_-i, theta_d),      w_di proportional to 1 / p(y_i | y_-i, theta_d)

theta_d are a draw's scale, noise and scales of the prior, given which a row is left out in closed form
(`inference.linear_loo`), with Pareto-smoothed weights (`inference.linear_left_out`). Left-out means and variances of
the targets are those of the weighted mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Shown
from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.inference.linear_left_out import left_out
from r2d2net.inference.pareto_smoothing import RELIABLE
from r2d2net.inference.row_keys import row_keys
from r2d2net.likelihoods import LogNormal
from r2d2net.posterior import Posterior

TOLERANCE = 1e-4  # of the rows' keys, relative to the largest


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictions of training rows, each without its own target; exact Bayes, whatever the spread of the draws.

    Attributes:
        log_score: log p(y_i | y_-i) of each row in the user's units, (n,); for classes the log probability.
        mean: Left-out means of real targets in the user's units, (n, outputs) or (n,); None for classes.
        variance: Left-out variances of them.
        pareto_k: Shape of the tail of each row's weights, (n,), the largest of the outputs.
        draws: Number of draws.
    """

    log_score: Tensor
    mean: Tensor | None
    variance: Tensor | None
    pareto_k: Tensor
    draws: int

    @property
    def elpd(self) -> float:
        """Sum of the log scores: the expected log predictive density of as many new rows."""
        return float(self.log_score.sum())

    @property
    def standard_error(self) -> float:
        """Standard error of `elpd` over rows."""
        return float(self.log_score.std(correction=0)) * math.sqrt(len(self.log_score))

    @property
    def verdict(self) -> str:
        """Whether the weights can be relied on, in words."""
        bad = int((self.pareto_k > RELIABLE).sum())
        if bad == 0:
            return f"reliable: all Pareto k are at most {RELIABLE}"
        return f"unreliable for {bad} of {len(self.pareto_k)} rows, whose Pareto k is above {RELIABLE}"

    def __str__(self) -> str:
        return f"elpd {self.elpd:.1f} (standard error {self.standard_error:.1f}), {self.draws} draws, {self.verdict}"


def loo(posterior: Posterior[Any], x: Any, y: Any) -> LeaveOneOut:
    """Predict each training row from all others.

    Args:
        posterior: A posterior that `LinearGibbs` made.
        x: The inputs of the fit, in the user's units.
        y: The targets of the fit; rows in any order, as long as it is that of ``x``.

    Returns:
        The left-out predictions, in the order of ``x``.

    Raises:
        ParameterError: If the posterior has no leave-one-out moments.
        DataError: If these are not the rows of the fit.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
        >>> model = rn.BayesianModel(torch.nn.Linear(2, 1))
        >>> posterior = rn.fit(model, (x, x[:, 0]), rn.inference.LinearGibbs(), epochs=100, verbose=False)
        >>> loo(posterior, x, x[:, 0]).mean.shape
        torch.Size([30])
    """
    source = posterior.source
    if not isinstance(source, LinearCollection):
        name = posterior.settings.get("algorithm", {}).get("type", "this algorithm")
        raise ParameterError("leaves no row out", value=Shown(name), fix="fit one linear layer by LinearGibbs")
    if isinstance(source.model.likelihood, LogNormal):
        fix = "fit the logarithms of y with a Gaussian likelihood"
        raise ParameterError("leaves rows out of normal noise only", value=Shown("LogNormal"), fix=fix)
    moments = source.state.loo
    if moments.mean.shape[1] == 0:
        fix = "give LinearGibbs more epochs, loo_draws or memory"
        raise ParameterError("the posterior has no leave-one-out moments", fix=fix)
    targets, order = _rows(posterior, x, y)
    classes = posterior.model.likelihood.has_classes
    mixed = left_out(moments, None if classes else targets[order])
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    score, k, draws = mixed.score[place], mixed.pareto_k[place], moments.mean[:, :, 0, 0].numel()
    if classes:
        return LeaveOneOut(score, None, None, k, draws)
    unit = posterior.units.y
    scale, center = unit.scale.double().cpu().expand(len(mixed.mean)), unit.center.double().cpu()
    means, spread = mixed.mean.T[place] * scale + center, mixed.variance.T[place] * scale.square()
    if posterior.flat_target:
        means, spread = means.squeeze(-1), spread.squeeze(-1)
    return LeaveOneOut(score - scale.log().sum(), means, spread, k, draws)


def _rows(posterior: Posterior[Any], x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Targets as the network sees them, (n, outputs), and the user's row at each place of the moments."""
    model = posterior.model
    inputs = posterior.network_inputs(x)
    target = model.likelihood.target(torch.as_tensor(y).to(model.device))
    target = target.to(model.dtype) if target.is_floating_point() else target
    seen = posterior.units.targets(target)
    keys = posterior.source.state.row_keys.to(model.device)
    if isinstance(inputs, Tensor) and inputs.dim() > 1 and len(inputs) == len(seen) == len(keys):
        found, order = row_keys(inputs.flatten(1), seen).sort()
        if bool((found - keys).abs().max() <= TOLERANCE * keys.abs().max().clamp(min=1e-6)):
            return seen.double().reshape(len(seen), -1).cpu(), order.cpu()
    raise DataError("are not the rows of the fit", argument="x and y", fix=f"give the {len(keys)} rows that it had")
