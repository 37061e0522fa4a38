"""What a prior says before any data: the share R2 of the variance that it expects, and how many inputs share it.

    R2    = Var f / (Var f + v)                    f drawn from the prior, v the variance of the noise
    m_eff = (sum_j s_j)^2 / sum_j s_j^2            s_j the prior variance of input j's weights, given the scales

Without a network f(x) = sum_j w_j x_j with independent inputs of variance 1: Var f = sum_j w_j^2. The effective number
of inputs m_eff is the participation ratio: p where all inputs have the same variance, k where k of them share it all;
under R2D2 it follows from the Dirichlet shares alone. It needs no data, where the number of weights that n rows leave
unshrunk (Piironen and Vehtari, 2017) depends on n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, require, require_instance, require_seed, require_whole
from r2d2net.priors.base import ScaleMixturePrior
from r2d2net.priors.elicited import Elicited, Implied
from r2d2net.priors.latent_noise import COUNTS, GUMBEL, LOGISTIC, NUMBERS, count_noise, likelihood_name
from r2d2net.priors.r2d2 import R2D2

AnyPrior = ScaleMixturePrior[Any]
CHUNK = 1 << 23  # weights that are drawn at a time


def elicit(
    prior: Any = 0.5,
    precision_r2: float = 2.0,
    concentration: float = 0.2,
    *,
    inputs: int | None = None,
    net: Any = None,
    likelihood: Any = None,
    x: Any = None,
    y: Any = None,
    noise: float | None = None,
    classes: int | None = None,
    mean_count: float | None = None,
    size: float | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Elicited:
    """Compute what priors imply before any data: R2, the effective number of inputs, and predictions.

    Args:
        prior: A prior; a number, which is the mean R2 of `R2D2.from_r2`; a `BayesianModel`, with its own network and
            likelihood and a prior for each parameter; or several of these by name, to be compared.
        precision_r2: Precision of R2, where a mean is given.
        concentration: Dirichlet concentration, where a mean is given.
        inputs: Number of inputs of a linear model; by default that of ``x``, or of groups of the prior.
        net: A network in place of the linear model: R2 is then that of its outputs at ``x``, by default 200 rows of
            independent normal inputs. Its biases have their usual prior.
        likelihood: Likelihood by name or as an object, Gaussian by default; R2 is that on the scale of the output.
        x: Rows, standardised as `fit` does it; predictions are drawn at them.
        y: Observed targets of these rows, with which predictions are compared.
        noise: Standard deviation of the noise of numbers, as the network sees them; by default what the likelihood
            knows of it, and else the prior's ``sigma0``, or 1.
        classes: Number of classes of a categorical likelihood, without a network.
        mean_count: A typical mean count, for counts without a network.
        size: Concentration of a negative binomial likelihood, or shape of a gamma one, without a network.
        draws: Number of draws from each prior; by default 4,000, or 500 where ``net`` or ``x`` is given.
        seed: Seed of the draws.

    Returns:
        The draws with their summary and figure.

    Raises:
        ParameterError: If an argument lies outside its range, is missing, or does not go with another.
        DataError: If the network does not take ``x``, or ``y`` does not fit.

    Example:
        >>> from r2d2net.priors import R2D2, elicit
        >>> elicit(R2D2.from_r2(0.3, 5.0, concentration=0.1), inputs=50, draws=2000)
        R2D2: R2 0.26 (90% of draws in 0.02 to 0.67), effective inputs 4.81 (2.02 to 8.37) of 50
    """
    require_seed(seed)
    if draws is not None:
        require_whole("draws", draws, least=2)
    if noise is not None:
        require(isinstance(noise, Real) and 0 < noise < 1e15, "noise", noise, "use a positive number")
    target = {"classes": classes, "mean_count": mean_count, "size": size}
    unit = {"likelihood": likelihood, **target} if likelihood is not None else {}

    def made(given: Any) -> Any:
        if _is_model(given):
            return given
        if isinstance(given, Real) and not isinstance(given, bool):
            return R2D2.from_r2(float(given), precision_r2, concentration, **unit)
        require_instance(given, ScaleMixturePrior, "prior", "prior", "use one of r2d2net.priors, or a mean R2")
        return given

    chosen = {name: made(one) for name, one in prior.items()} if isinstance(prior, Mapping) else None
    if chosen is None:
        single = made(prior)
        chosen = {type(single).__name__: single}
    require(len(chosen) > 0, "prior", prior, "give one prior or more")
    if net is None and x is None and not any(map(_is_model, chosen.values())):
        if y is not None:
            raise ParameterError("needs the rows of its targets", argument="y", fix=("give ", Argument("x")))
        count = _inputs(inputs, chosen.values())
        name = likelihood_name("gaussian" if likelihood is None else likelihood)
        width = _classes(classes) if name == "categorical" else 1
        unexplained = _noise_variance(name, noise, width, mean_count, size)
        return Elicited(
            tuple(
                linear_implied(label, own, count, unexplained, 4000 if draws is None else draws, seed, width)
                for label, own in chosen.items()
            )
        )
    for argument, value in {**target, "inputs": inputs}.items():
        if value is not None:
            problem = "is for a linear model without rows: the network, the rows and the likelihood say it"
            raise ParameterError(problem, argument=argument, value=value, fix="leave it out")
    networks = import_module("r2d2net.prior_networks")  # it knows networks, which priors do not
    found: Elicited = networks.elicited(chosen, net, likelihood, x, y, noise, 500 if draws is None else draws, seed)
    return found


def linear_implied(
    name: str, prior: AnyPrior, inputs: int, unexplained: float | None, draws: int, seed: int, width: int = 1
) -> Implied:
    """Draw R2 and the effective number of inputs of a linear model with independent standardised inputs.

    Args:
        name: Name of the prior.
        prior: The prior.
        inputs: Number of inputs.
        unexplained: Variance of the noise; None for the prior's sigma0^2, or 1.
        draws: Number of draws.
        seed: Seed of the draws.
        width: Number of outputs; of several the mean over them is taken off, as for classes.

    Returns:
        The draws.
    """
    generator = torch.Generator().manual_seed(int(seed))
    variance = float(getattr(prior, "sigma0", 1.0)) ** 2 if unexplained is None else unexplained
    shape = (inputs,) if width == 1 else (width, inputs)
    shares, effective = [], []
    at_once = max(1, CHUNK // (inputs * width))
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        groups = (count, *[1] * len(shape))
        scales = prior.init_scales((count, *shape), generator, groups=groups, dtype=torch.float64)
        v = prior.variance(scales)
        w = v.sqrt() * torch.empty_like(v).normal_(generator=generator)
        explained = (w - w.mean(1, keepdim=True) if width > 1 else w).square().flatten(1).sum(1)
        shares.append(explained / (explained + variance))
        effective.append(participation(v if width == 1 else v.sum(1)))
    whole = variance if width == 1 else variance * width / (width - 1)
    return Implied(name, torch.cat(shares), torch.cat(effective), inputs, stated_shapes(prior, whole))


def stated_shapes(prior: AnyPrior, unit: float) -> tuple[float, float] | None:
    """Return the shapes of R2's beta distribution, where the prior gives it one in units of this noise.

    Args:
        prior: The prior.
        unit: Variance to which a linear model's total prior variance is compared.

    Returns:
        The shapes, or None.
    """
    own = float(getattr(prior, "sigma0", 1.0)) ** 2
    return prior.r2_shapes if math.isclose(own, unit, rel_tol=1e-6) else None


def participation(variances: Tensor) -> Tensor:
    """Compute the effective number of the last dimension's entries, (sum s)^2 / sum s^2.

    Args:
        variances: Positive numbers, (..., entries).

    Returns:
        The number, (...), between 1 and the number of entries.

    >>> participation(torch.tensor([[1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0]]))
    tensor([4., 1.])
    """
    shares = variances / variances.amax(-1, keepdim=True)
    return shares.sum(-1).square() / shares.square().sum(-1)


def _is_model(given: Any) -> bool:
    """Whether it is a `BayesianModel`, a class that priors do not know."""
    return hasattr(given, "bayesian") and hasattr(given, "likelihood")


def _inputs(inputs: int | None, priors: Any) -> int:
    """Return the number of inputs: as given, or as groups of a prior say."""
    if inputs is None:
        grouped = [own.inputs for own in priors if own.inputs is not None]
        if not grouped:
            fix = ("give ", Argument("inputs", 20), ", say, or ", Argument("x"))
            raise ParameterError("is missing", argument="inputs", fix=fix)
        return int(grouped[0])
    require_whole("inputs", inputs)
    return int(inputs)


def _classes(classes: int | None) -> int:
    require(classes is not None, "classes", classes, "a categorical likelihood needs their number")
    require_whole("classes", classes, least=2)
    assert classes is not None
    return int(classes)


def _noise_variance(
    name: str, noise: float | None, width: int, mean_count: float | None, size: float | None
) -> float | None:
    """Return the variance of the noise on the scale of the output; None where it is the prior's unit."""
    if name in NUMBERS:
        return None if noise is None else float(noise) ** 2
    if noise is not None:
        raise ParameterError(f"is not for {name} targets", argument="noise", value=noise, fix="leave it out")
    if name == "gamma":
        if size is None:
            raise ParameterError("is missing", argument="size", fix=("give ", Argument("size", 2.0), ", say"))
        return math.log1p(1 / float(size))
    if name in COUNTS:
        fix = ("give ", Argument("mean_count", 2.5), ", say")
        if mean_count is None:
            raise ParameterError(f"is missing, which R2 of {name} targets needs", argument="mean_count", fix=fix)
        if name == "negative-binomial" and size is None:
            raise ParameterError("is missing", argument="size", fix=("give ", Argument("size", 2.0), ", say"))
        return float(count_noise(float(mean_count), float("inf") if size is None else float(size)))
    return (width - 1) * GUMBEL if name == "categorical" else LOGISTIC
