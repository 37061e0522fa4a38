"""The rows of the paper's tables: the prior and the algorithm of each, by our defaults or by the paper's recipe.

The paper's names: Gauss, HS (horseshoe), SaS (spike-and-slab), R2D2; SVI, MFVI, Radial, SGLD, SGMCMC (our SGHMC), SVGI;
Freq (MAP), MCD (MC dropout), DE (deep ensembles), EDL, DPN. Where the paper says SVI for a hierarchical prior, ours is
SVI with coordinate-ascent factors.

The paper's recipe, from its section on implementation: Adam with step size 0.0005 and weight decay 0.0005, KL weighted
by 0.001, the epoch with the largest validation AUROC, images cropped, flipped and jittered; R2D2 with a_pi = 0.6 and
b = 0.5, deviations that start at rho_0 = -3 (see `hyperparameters`). Weight decay d of a mean loss over n rows is the
Gaussian prior of variance 1 / (n d), so rows without a prior of their own get that one. Rows with a prior are not
decayed on top of it, which would change the prior. Samplers keep the draws of many epochs, not of a best one, and do
not use Adam.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

from r2d2net import inference, priors
from r2d2net.data import Augment
from r2d2net.inference import Method
from r2d2net.inference.stacked import Stacked
from r2d2net.model import AnyPrior
from r2d2net.specification import describe

Recipe = Literal["ours", "paper"]

STEP, DECAY, KL_WEIGHT = 5e-4, 5e-4, 1e-3  # of the paper's recipe, as all below
RHO_START = -3.0
PATIENCE = 5  # epochs without a better validation score after which simulations end
PAPER_AUGMENT = Augment(padding=4, flip=True, brightness=0.2, contrast=0.2, saturation=0.2)


class Row(NamedTuple):
    """One method of a table."""

    name: str  # ours, a key: "r2d2-svgi"
    prior: str  # the paper's name of the prior or model
    algorithm: str  # the paper's name of the algorithm; "" where it has none


ROWS = {
    row.name: row
    for row in (
        Row("freq", "Freq", ""),
        Row("mcd", "MCD", ""),
        Row("de", "DE", ""),
        Row("edl", "EDL", ""),
        Row("dpn", "DPN", ""),
        Row("gauss-svi", "Gauss", "SVI"),
        Row("gauss-mfvi", "Gauss", "MFVI"),
        Row("gauss-radial", "Gauss", "Radial"),
        Row("gauss-sgmcmc", "Gauss", "SGMCMC"),
        Row("gauss-sgld", "Gauss", "SGLD"),
        Row("hs-svi", "HS", "SVI"),
        Row("hs-sgmcmc", "HS", "SGMCMC"),
        Row("sas-svi", "SaS", "SVI"),
        Row("sas-sgmcmc", "SaS", "SGMCMC"),
        Row("sas-sgld", "SaS", "SGLD"),
        Row("r2d2-sgmcmc", "R2D2", "SGMCMC"),
        Row("r2d2-sgld", "R2D2", "SGLD"),
        Row("r2d2-svgi", "R2D2", "SVGI"),
        # in no table of the paper: rivals by the algorithm of R2D2-Net, so that prior and algorithm do not both differ
        Row("gauss-svgi", "Gauss", "SVGI"),
        Row("hs-svgi", "HS", "SVGI"),
        Row("sas-svgi", "SaS", "SVGI"),
        Row("adaptive-svgi", "Adaptive", "SVGI"),  # ours
        # R2D2 by algorithms that the paper does not know
        Row("r2d2-mclmc", "R2D2", "MCLMC"),
        Row("r2d2-gibbs", "R2D2", "LinearGibbs"),
        Row("default", "R2D2", "Stacked"),  # what `r2d2net fit` does with a table
    )
}

OUR_ALGORITHMS = ("MCLMC", "LinearGibbs", "Stacked")  # the paper has no recipe for them
# rows that are in no table of the paper
OURS = {
    row.name
    for row in ROWS.values()
    if row.algorithm in OUR_ALGORITHMS or (row.algorithm == "SVGI" and row.prior != "R2D2")
}

PRIORS: dict[str, AnyPrior] = {
    "HS": priors.Horseshoe(),
    "SaS": priors.SpikeSlab(),
    "R2D2": priors.R2D2(),
    "Adaptive": priors.R2D2.adaptive(),
}
WITHOUT_PRIOR = {"Freq": "MAP", "MCD": "MCDropout", "DE": "DeepEnsemble", "EDL": "EDL", "DPN": "DPN"}
ALGORITHMS = {"SGMCMC": "SGHMC"}  # where our name is another


def prior_of(row: str, recipe: Recipe = "ours", n: int = 1) -> AnyPrior:
    """Return the prior of a row's weights.

    Args:
        row: A name in `ROWS`.
        recipe: By our defaults, rows to which the paper gives no prior have the Gaussian one.
        n: Number of training rows, on which the paper's weight decay depends.

    Returns:
        The prior.
    """
    name = ROWS[row].prior
    if recipe == "paper" and name in WITHOUT_PRIOR:
        return priors.Gaussian(scale=math.sqrt(1 / (n * DECAY)))
    if recipe == "paper" and name == "R2D2":
        return priors.R2D2.paper()
    return PRIORS.get(name, priors.Gaussian())


def method_of(row: str, recipe: Recipe = "ours", **settings: Any) -> Method:
    """Return the algorithm of a row.

    Args:
        row: A name in `ROWS`.
        recipe: Whether the algorithm has our defaults or the paper's settings.
        settings: Further settings, which take precedence over those of the recipe.

    Returns:
        The algorithm.
    """
    _, prior, algorithm = ROWS[row]
    name = WITHOUT_PRIOR.get(prior) or ALGORITHMS.get(algorithm, algorithm)
    kind = Stacked if name == "Stacked" else getattr(inference, name)
    if recipe == "ours" or algorithm in OUR_ALGORITHMS:
        return kind(**settings)
    default, papers = kind(), {}
    if default.optimizes:
        papers = {"lr": STEP, "step_unit": "one", "schedule": "constant"}
    if prior not in WITHOUT_PRIOR:
        papers["temperature"] = KL_WEIGHT
    if has_setting(default, "lr_rho"):
        papers |= {"lr_rho": STEP, "initial_scale": math.log1p(math.exp(RHO_START))}
    return kind(**{**papers, **settings})


def has_setting(method: Method, name: str) -> bool:
    """Whether an algorithm has a setting: step sizes are ``lr``, those of mean-field deviations ``lr_rho``."""
    return any(field.name == name for field in dataclasses.fields(method))  # type: ignore[arg-type]


def stopping_rule(recipe: Recipe, method: Method, epochs: int, *, classes: bool) -> dict[str, Any]:
    """Return the arguments of `fit` that say which epoch is kept; none where it is the last.

    Args:
        recipe: Only the paper's recipe chooses an epoch.
        method: The algorithm; samplers have no best epoch.
        epochs: Length of the run.
        classes: Whether the targets are classes, for which the paper takes the epoch of the largest validation AUROC.
    """
    if recipe == "ours" or not method.optimizes:
        return {}
    return {"patience": epochs, "score": "auroc"} if classes else {"patience": PATIENCE}


def described(row: str, recipe: Recipe, **settings: Any) -> dict[str, Any]:
    """Return the prior and the algorithm of a row with all settings but the step sizes, which validation rows choose.

    Args:
        row: A name in `ROWS`.
        recipe: By our defaults or as the paper has it.
        settings: Further settings of the algorithm.

    Returns:
        Plain JSON, for the description of a grid.
    """
    decayed = recipe == "paper" and ROWS[row].prior in WITHOUT_PRIOR
    prior = f"weight decay {DECAY:g}" if decayed else repr(prior_of(row, recipe))
    return {"prior": prior, "algorithm": describe(method_of(row, recipe, **settings))}


def our_training(settings: dict[str, Any]) -> str:
    """Say how training by our defaults departs from the paper's, for the report of cells with these settings.

    >>> our_training({"mean_field": [{"factor": 0.3, "temperature": 0.01}, {"factor": 0.3}]})
    "step sizes are our own and the KL weighs 1 or 0.01, in place of the paper's 0.0005 and 0.001 (0.01 became a \
candidate after test figures at 1 had been seen)"
    """
    weights = {1.0, *(candidate.get("temperature", 1.0) for candidate in settings.get("mean_field", ()))}
    weighs = " or ".join(f"{weight:g}" for weight in sorted(weights, reverse=True))
    seen = " (0.01 became a candidate after test figures at 1 had been seen)" if 0.01 in weights else ""
    return (
        f"step sizes are our own and the KL weighs {weighs}, in place of the paper's {STEP:g} and {KL_WEIGHT:g}{seen}"
    )
