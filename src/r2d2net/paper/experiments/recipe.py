"""How a row is trained: by our defaults, or as the paper's implementation section has it.

The paper: Adam with step size 0.0005 and weight decay 0.0005, KL weighted by 0.001, the epoch with the largest
validation AUROC, images cropped, flipped and jittered; R2D2 with a_pi = 0.6 and b = 0.5, deviations that start at
rho_0 = -3 (see `hyperparameters`). Weight decay d of a mean loss over n rows is the Gaussian prior of variance
1 / (n d): so rows without a prior of their own get that one. Rows with one are not decayed on top of it, which would
change their prior. Samplers have draws of many epochs, not a best one, and no Adam.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from r2d2net.data import Augment
from r2d2net.inference import Method
from r2d2net.inference.variational import Variational
from r2d2net.model import AnyPrior
from r2d2net.paper.experiments.method_rows import ROWS, WITHOUT_PRIOR, method_of, prior_of
from r2d2net.priors import R2D2, Gaussian
from r2d2net.specification import describe

Recipe = Literal["ours", "paper"]

STEP, DECAY, KL_WEIGHT = 5e-4, 5e-4, 1e-3
RHO_START = -3.0
PAPER_AUGMENT = Augment(padding=4, flip=True, brightness=0.2, contrast=0.2, saturation=0.2)


def method_by(recipe: Recipe, row: str, **settings: Any) -> Method:
    """The algorithm of a row; ``settings`` are given in any case."""
    if recipe == "ours":
        return method_of(row, **settings)
    theirs: dict[str, Any] = {}
    if method_of(row).optimizes:
        theirs = {"lr": STEP, "step_unit": "one", "schedule": "constant"}
    if ROWS[row].prior not in WITHOUT_PRIOR:
        theirs["temperature"] = KL_WEIGHT
    if isinstance(method_of(row), Variational):
        theirs |= {"lr_rho": STEP, "initial_scale": math.log1p(math.exp(RHO_START))}
    return method_of(row, **{**theirs, **settings})


def prior_by(recipe: Recipe, row: str, n: int) -> AnyPrior:
    """The prior of a row's weights, of which n rows learn."""
    if recipe == "paper" and ROWS[row].prior in WITHOUT_PRIOR:
        return Gaussian(scale=math.sqrt(1 / (n * DECAY)))
    if recipe == "paper" and ROWS[row].prior == "R2D2":
        return R2D2.paper()
    return prior_of(row)


def described(recipe: Recipe, row: str, **settings: Any) -> dict[str, Any]:
    """What a row is, with all its settings, for the description of a grid; validation rows change step sizes."""
    decayed = recipe == "paper" and ROWS[row].prior in WITHOUT_PRIOR
    prior = f"weight decay {DECAY:g}" if decayed else repr(prior_by(recipe, row, n=1))
    return {"prior": prior, "algorithm": describe(method_by(recipe, row, **settings))}


def choice_by(recipe: Recipe, method: Method, epochs: int) -> dict[str, Any]:
    """Arguments of `fit` that say which epoch is kept."""
    return {"patience": epochs, "score": "auroc"} if recipe == "paper" and method.optimizes else {}
