"""Shrinkage priors: Gaussian scale mixtures over the weights of one layer. The contract is in `base`."""

from r2d2net.priors.adaptive_r2d2 import AdaptiveR2D2
from r2d2net.priors.base import ContinuousScalePrior, Factors, ScaleMixturePrior
from r2d2net.priors.dirichlet_laplace import DirichletLaplace
from r2d2net.priors.elicitation import elicit
from r2d2net.priors.elicited import Elicited, Implied
from r2d2net.priors.gaussian import Gaussian
from r2d2net.priors.generalized_double_pareto import GeneralizedDoublePareto
from r2d2net.priors.group_horseshoe import GroupHorseshoe
from r2d2net.priors.group_r2d2 import GroupR2D2
from r2d2net.priors.horseshoe import Horseshoe
from r2d2net.priors.horseshoe_plus import HorseshoePlus
from r2d2net.priors.r2d2 import R2D2
from r2d2net.priors.spike_slab import SpikeSlab

__all__ = [
    "R2D2",
    "AdaptiveR2D2",
    "ContinuousScalePrior",
    "DirichletLaplace",
    "Elicited",
    "Factors",
    "Gaussian",
    "GeneralizedDoublePareto",
    "GroupHorseshoe",
    "GroupR2D2",
    "Horseshoe",
    "HorseshoePlus",
    "Implied",
    "ScaleMixturePrior",
    "SpikeSlab",
    "elicit",
]
