"""The variance of the noise on the scale of a network's output: what R2 compares the signal with, for any target.

    R2 = Var f / (Var f + v)                                   share of the latent variance that f explains

    classes by one logit, ordinal classes     v = pi^2 / 3                     of the logistic law
    classes by K logits                       v = (K - 1) pi^2 / 6             of centred Gumbel noise, summed
    counts, log mean                          v = log(1 + 1 / m + 1 / k)       m the mean, k the concentration
    positive amounts by a gamma law           v = log(1 + 1 / k)               k the shape

For classes y is the sign, or the largest, of f plus noise (McKelvey and Zavoina, 1975); with K logits both variances
are sums over the classes of what is left after the mean over classes is taken off, and K = 2 gives the same R2 as one
logit. For counts v is the variance of a log-normal law with the relative variance 1 / m + 1 / k of a count (Nakagawa
and Schielzeth, 2013; Nakagawa, Johnson and Schielzeth, 2017); k is infinite for Poisson counts.
"""

from __future__ import annotations

import math
from typing import Any

from r2d2net.errors import Argument, ParameterError, require, require_whole
from r2d2net.registry import LIKELIHOODS

LOGISTIC, GUMBEL = math.pi**2 / 3, math.pi**2 / 6  # variances
NUMBERS = ("gaussian", "student-t", "heteroscedastic", "log-normal")
COUNTS = ("poisson", "negative-binomial")


def likelihood_name(likelihood: Any) -> str:
    """Return the registered name of a likelihood.

    Args:
        likelihood: A name of `r2d2net.registry.LIKELIHOODS` in any case, or an object of such a class.

    Returns:
        The name.

    Raises:
        ParameterError: If it is neither.

    >>> likelihood_name("Poisson")
    'poisson'
    """
    names = {place.partition(":")[2]: name for name, place in LIKELIHOODS.items()}
    name = likelihood.lower() if isinstance(likelihood, str) else names.get(type(likelihood).__name__)
    if name is None or name not in LIKELIHOODS:
        fix = f"use one of {', '.join(LIKELIHOODS)}"
        raise ParameterError("has no R2 on the scale of the output", argument="likelihood", value=likelihood, fix=fix)
    return name


def count_noise(mean: Any, concentration: Any = math.inf) -> Any:
    """Compute the variance of the noise of counts on the scale of the log mean.

    Args:
        mean: Mean count, a number or a tensor.
        concentration: Concentration k of a negative binomial law; infinite for Poisson's.

    Returns:
        log(1 + 1 / mean + 1 / concentration), as the arguments a number or a tensor.

    >>> round(count_noise(1.0), 4), round(count_noise(1.0, 2.0), 4)
    (0.6931, 0.9163)
    """
    relative = 1 / mean + 1 / concentration
    return math.log1p(relative) if isinstance(relative, float) else relative.log1p()


def scale_for_r2(
    likelihood: Any, *, classes: int | None = None, mean_count: float | None = None, size: float | None = None
) -> float:
    """Compute the sigma0 with which omega / (1 + omega) is the R2 of a linear model for such targets.

    Args:
        likelihood: A name of `r2d2net.registry.LIKELIHOODS`, or an object of such a class.
        classes: Number K of classes, for "categorical".
        mean_count: A typical mean count, for counts.
        size: Concentration k of a negative binomial likelihood, or shape k of a gamma one.

    Returns:
        The square root of the latent noise variance; for K logits of K pi^2 / 6, since a weight matrix of total
        variance omega sigma0^2 has (1 - 1 / K) of it after the mean over the classes is taken off. 1 for numbers, whose
        noise is the unit.

    Raises:
        ParameterError: If an argument is missing, lies outside its range, or is of another likelihood.

    >>> round(scale_for_r2("bernoulli"), 4), round(scale_for_r2("categorical", classes=2), 4)
    (1.8138, 1.8138)
    """
    name = likelihood_name(likelihood)
    needed = {
        "classes": (classes, name == "categorical", ("classes", 3)),
        "mean_count": (mean_count, name in COUNTS, ("mean_count", 2.5)),
        "size": (size, name in ("negative-binomial", "gamma"), ("size", 2.0)),
    }
    for argument, (value, is_needed, example) in needed.items():
        if is_needed and value is None:
            fix = ("give ", Argument(*example), ", say")
            raise ParameterError(f"is missing, which R2 of {name} targets needs", argument=argument, fix=fix)
        if not is_needed and value is not None:
            raise ParameterError(f"is not for {name} targets", argument=argument, value=value, fix="leave it out")
    if classes is not None:
        require_whole("classes", classes, least=2)
        return math.sqrt(classes * GUMBEL)
    for argument, number in (("mean_count", mean_count), ("size", size)):
        if number is not None:
            fits = isinstance(number, (int, float)) and 0 < number < math.inf
            require(fits, argument, number, "use a positive number")
    if mean_count is not None:
        return math.sqrt(count_noise(float(mean_count), math.inf if size is None else float(size)))
    if size is not None:
        return math.sqrt(math.log1p(1 / size))
    return 1.0 if name in NUMBERS else math.sqrt(LOGISTIC)
