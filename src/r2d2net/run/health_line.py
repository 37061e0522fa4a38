"""What a fit's measures mean: the flags they raise, and one line for people.

    what                     flagged if                        because
    slope                    > 1                               the means are off by one of their own deviations
    spread                   < 1/2 or > 2, by 2 errors         deviations are off by more than a factor sqrt(2)
    k_hat, linear models     > 1                               the mean of the importance ratios is not finite
    p_value                  < 0.001 or > 0.999                the noise does not fit the residuals, and these are not
                                                               nothing: noise above 3% (residuals above 0.1%) of sd(y)
    elpd_gain                < -0.1, by 2 errors               rows left out are predicted worse than by a constant
    elpd_rows_below          > 0                               rows left out have a density so far below a constant's
                                                               as one has in a thousand fits by chance
    levelled                 False                             the loss still fell
    r_hat, effective_draws   > 1.2, or < 10 draws              of linear models: chains have not mixed, and their mean
                                                               is off by a third of a deviation
                                                               (unless noise and residuals are below 0.1% of sd(y))
                             > 3, or < 3 draws                 of networks: the draws are worth less than three networks
    chain_share              > 1/2                             most of the predictive variance is chains' disagreement
    verdict                  worse than a constant, collapsed to one, wild at new rows

R-hat of a few dozen independent draws is up to 1.1 by chance in the worst of 64 rows, so that 1.01 would flag all.
Chains of a network with hidden layers stay near different modes: with R-hat of 1.2 to 3 their mixture predicts well, as
does an ensemble, and the line says what it is. A single chain has no other modes to show for itself.
"""

from __future__ import annotations

import math
from typing import Any

STEEP = 1.0
SPREAD = (0.5, 2.0)
SURE = 2.0  # standard errors
INFINITE_MEAN = 1.0  # Pareto shape from which the ratios have no mean
RELIABLE = 0.7
UNLIKELY = 0.001
NOT_MIXED, FEWEST_DRAWS = 1.2, 10.0
FAR_FROM_MIXED, HARDLY_ANY = 1.5, 5.0  # of a warning
WORTHLESS, LEAST_NETWORKS, MOST_SHARE = 3.0, 3.0, 0.5  # of networks with hidden layers
TINY_NOISE, TINY_RESIDUAL = 0.03, 0.001  # of the target's deviation; noise at the floor of its prior is up to 0.02
RUN_AWAY = 3.0  # noise in residuals
BELOW = 0.1  # nats a row


def flags(health: dict[str, Any]) -> list[str]:
    """List what is wrong with a fit, each in a few words.

    Args:
        health: The measures of `r2d2net.run.health.look_at`.

    Returns:
        The flags; none if nothing is wrong.
    """
    found = [health["verdict"]] if health["verdict"] in BAD_VERDICTS else []
    if (health.get("slope") or 0.0) > STEEP:
        found.append(f"means are {health['slope']:.1f} sd off their optimum")
    spread, error = health.get("spread_ratio"), SURE * (health.get("spread_error") or 0.0)
    if spread is not None and spread + error < SPREAD[0]:
        found.append(f"draws are too narrow, {_factor(spread)} of the sd")
    if spread is not None and spread - error > SPREAD[1]:
        found.append(f"draws are too wide, {_factor(spread)} of the sd")
    if health.get("linear") and (health.get("k_hat") or 0.0) > INFINITE_MEAN:
        found.append(f"k-hat {health['k_hat']:.1f}: the weights' posterior is of another shape")
    chance = health.get("p_value")
    if chance is not None and chance < UNLIKELY and not health.get("residual", 1.0) < TINY_RESIDUAL:
        found.append("noise is too small for the residuals")
    if chance is not None and chance > 1 - UNLIKELY and not health.get("noise", 1.0) < TINY_NOISE:
        found.append("noise is too large for the residuals")
    if is_below_constant(health):
        found.append(f"rows left out are predicted worse than by a constant, by {-health['elpd_gain']:.2g} nats")
    if health.get("elpd_rows_below"):
        found.append(far_below(health))
    if health.get("levelled") is False:
        found.append("the loss still fell")
    if _exceeds(health, NOT_MIXED, FEWEST_DRAWS):
        found.append(not_mixed(health))
    return found


def is_below_constant(health: dict[str, Any]) -> bool:
    """Tell whether rows left out are predicted worse than by a constant, beyond chance.

    Args:
        health: The measures.
    """
    gain = health.get("elpd_gain")
    return gain is not None and gain < -BELOW and gain + SURE * health["elpd_gain_error"] < 0


def far_below(health: dict[str, Any]) -> str:
    """Say how many rows left out are predicted far worse than by a constant.

    Args:
        health: The measures, with those of rows beside a constant.

    >>> far_below({"elpd_rows_below": 1, "elpd_rows": 80, "elpd_least_gain": -312.4})
    '1 of 80 rows left out is predicted far worse than by a constant (310 nats): another likelihood may suit it'
    """
    few = health["elpd_rows_below"]
    verb, them, each = ("is", "it", "") if few == 1 else ("are", "them", "up to ")
    below = -health["elpd_least_gain"]
    nats = f"{float(f'{below:.2g}'):,.15g}"
    words = (
        f"of {health['elpd_rows']:,} rows left out {verb} predicted far worse than by a constant ({each}{nats} nats)"
    )
    return f"{few:,} {words}: another likelihood may suit {them}"


def has_run_away(health: dict[str, Any]) -> bool:
    """Tell whether the noise is several times the residuals on the training rows, beyond chance.

    Args:
        health: The measures.
    """
    noise, residual, chance = (health.get(name) for name in ("noise", "residual", "p_value"))
    if noise is None or residual is None or chance is None:
        return False
    return chance > 1 - UNLIKELY and noise > max(RUN_AWAY * residual, TINY_NOISE)


def _exceeds(health: dict[str, Any], largest: float, fewest: float) -> bool:
    """Tell whether chains are beyond the limits of linear models, or beyond those of networks."""
    if "r_hat" not in health or _is_noiseless(health):
        return False
    if health.get("linear") is False:
        largest, fewest = WORTHLESS, LEAST_NETWORKS
        if not health.get("chain_share", 0.0) <= MOST_SHARE:
            return True
    return not (health["r_hat"] <= largest and health["effective_draws"] >= fewest)


def not_mixed(health: dict[str, Any]) -> str:
    """Say that chains have not mixed.

    Args:
        health: The measures, with those of chains.
    """
    return f"chains have not mixed (R-hat {health['r_hat']:.2f}, effective draws {health['effective_draws']:.1f})"


def _is_noiseless(health: dict[str, Any]) -> bool:
    """Tell whether chains agree on the targets to a thousandth, in a table with no more columns than rows."""
    return "swing" not in health and max(health.get("noise", 1.0), health.get("residual", 1.0)) < TINY_RESIDUAL


def are_far_from_mixed(health: dict[str, Any]) -> bool:
    """Tell whether chains have mixed so little that their user must be warned.

    Args:
        health: The measures.
    """
    return _exceeds(health, FAR_FROM_MIXED, HARDLY_ANY)


def line(health: dict[str, Any]) -> str:
    """Say in one line how a fit is.

    Args:
        health: The measures, with "flags".

    Returns:
        The line, without a full stop.

    Example:
        >>> line({"verdict": "fits", "flags": [], "k_hat": 0.31, "linear": True, "levelled": True, "p_value": 0.48})
        'health: nothing wrong found; k-hat 0.31 (q covers its target), predictive p-value 0.48, the loss had ...off'
        >>> line({"verdict": "not checked", "flags": []})
        'health: not checked'
    """
    if health["verdict"] == "not checked":
        return "health: not checked"
    facts = list(_facts(health))
    opening = f"WARNING, {'; '.join(health['flags'])}" if health["flags"] else "nothing wrong found"
    if not health["flags"] and health["verdict"] != "fits":
        opening = health["verdict"]
    return f"health: {opening}" + ("" if not facts else f"; {', '.join(facts)}")


def _facts(health: dict[str, Any]) -> Any:
    shape = health.get("k_hat")
    if shape is not None:
        if shape <= RELIABLE:
            words = "q covers its target"
        elif health.get("linear"):
            words = "above 0.7: read the weights' intervals with care"
        else:
            words = "above 0.7, as is usual for a network's weights, which are not identified: judge by predictions"
        yield f"k-hat {shape:.2f} ({words})"
    if health.get("slope") is not None:
        yield f"means {health['slope']:.2f} sd off"
    if health.get("spread_ratio") is not None:
        yield f"spread {_factor(health['spread_ratio'])}"
    if "r_hat" in health and not_mixed(health) not in health["flags"]:
        words, worth = f"R-hat {health['r_hat']:.2f}", f"effective draws {health['effective_draws']:.0f}"
        if health["r_hat"] > NOT_MIXED:
            words += " of predictions (a mixture of chains that have not agreed: judge by left-out density)"
        yield f"{words}, {worth}"
    if "elpd" in health:
        how = health.get("elpd_by") or ("exact" if health["loo_exact"] else "PSIS")
        bad = health.get("loo_bad", 0)
        rows = "" if bad == 0 else f", {math.ceil(100 * bad)}% of rows with k above 0.7"
        yield f"left-out log density {health['elpd']:.3g} ± {health['elpd_error']:.2g} nats a row ({how}{rows})"
    if health.get("p_value") is not None:
        yield f"predictive p-value {health['p_value']:.2g}"
    if health.get("levelled"):
        yield "the loss had levelled off"


def _factor(spread: float) -> str:
    """Return the factor by which deviations are off, given that of variances."""
    return f"{math.sqrt(max(spread, 0.0)):.2f}"


BAD_VERDICTS = ("worse than a constant", "collapsed to a constant", "wild at new rows")
