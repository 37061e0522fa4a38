"""The meaning of the estimators' parameters: priors by name, and seeds."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from r2d2net.errors import Argument, ParameterError, Shown, require, require_instance
from r2d2net.model import AnyPrior
from r2d2net.priors import ScaleMixturePrior
from r2d2net.ranks import is_world
from r2d2net.registry import ALGORITHMS, FOR_CLASSES, PRIORS, SUITABLE_PRIORS

LARGEST_SEED = 2**32 - 1  # as scikit-learn has it


def prior_of(prior: Any) -> AnyPrior | None:
    """Return the prior that an estimator's parameter ``prior`` stands for.

    Args:
        prior: A name of `r2d2net.registry.PRIORS` in any case, "auto", or a prior.

    Returns:
        The prior; None for "auto", where validation rows choose it.

    Raises:
        ParameterError: ``prior`` is none of these.

    >>> prior_of("horseshoe")
    Horseshoe(scale=1.0, global_scale=1.0)
    """
    if isinstance(prior, str) and prior.lower() == "auto":
        return None
    if isinstance(prior, str) and prior.lower() in PRIORS:
        named: AnyPrior = PRIORS.constructor(prior.lower())()
        return named
    fix = f"use one of {', '.join(PRIORS)}, auto, or an object of that kind"
    require_instance(prior, ScaleMixturePrior, "prior", "prior", fix)
    assert isinstance(prior, ScaleMixturePrior)
    return prior


def is_auto(algorithm: Any) -> bool:
    """Tell whether the parameter ``algorithm`` leaves the choice to `fit`.

    Args:
        algorithm: The parameter.

    Returns:
        Whether it is "auto", in any case.
    """
    return isinstance(algorithm, str) and algorithm.lower() == "auto"


def require_suitable(algorithm: Any, prior: Any, *, has_classes: bool) -> None:
    """Refuse named parameters of an estimator that do not suit each other, in the names that its user types.

    Objects of other classes are left to `r2d2net.fit`, whose errors name classes.

    Args:
        algorithm: The parameter ``algorithm``.
        prior: The parameter ``prior``.
        has_classes: Whether the estimator predicts classes.

    Raises:
        ParameterError: The algorithm is for classes only, or does not suit the prior.
    """
    classes = {ALGORITHMS.constructor(name): name for name in (*SUITABLE_PRIORS, *FOR_CLASSES)}
    name = algorithm.lower() if isinstance(algorithm, str) else classes.get(type(algorithm))
    if name in FOR_CLASSES and not has_classes:
        fix = ("use R2D2Classifier, or another algorithm, such as ", Argument("algorithm", "svgi"))
        raise ParameterError("is for classes", argument="algorithm", value=algorithm, fix=fix)
    suitable = SUITABLE_PRIORS.get(name) if name is not None else None
    if suitable is not None and isinstance(prior, str) and prior.lower() not in suitable:
        use = Argument("prior", Shown(" or ".join(map(repr, suitable))))
        raise ParameterError(
            ("does not suit ", Argument("prior", prior)),
            argument="algorithm",
            value=algorithm,
            fix=("use ", use, ", or an algorithm for every prior, such as ", Argument("algorithm", "svgi")),
        )


def seed_of(random_state: Any) -> int:
    """Convert ``random_state`` to a seed: a number is the seed, a RandomState draws one, None takes a random one.

    In one of several processes None is 0: a fit that they make together has one seed.
    """
    if random_state is None and is_world():
        return 0
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, Integral):
        seed = int(random_state)
        require(0 <= seed <= LARGEST_SEED, "random_state", seed, f"use a whole number from 0 to {LARGEST_SEED}")
        return seed
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
