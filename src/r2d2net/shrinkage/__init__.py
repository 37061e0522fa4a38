"""Effects of shrinkage on a fitted network: the inputs that it uses, their effects, its effective number of weights."""

from r2d2net.shrinkage.compression import Compressed, compress
from r2d2net.shrinkage.contributions import Contributions, contributions
from r2d2net.shrinkage.effective_weights import effective_weights
from r2d2net.shrinkage.interactions import Interactions, interactions
from r2d2net.shrinkage.partial_dependence import PartialDependence, partial_dependence
from r2d2net.shrinkage.pruned import Pruned
from r2d2net.shrinkage.pruning import prune
from r2d2net.shrinkage.pruning_curve import PruningCurve, pruning_curve
from r2d2net.shrinkage.quantisation import Quantised, load_quantised, quantise
from r2d2net.shrinkage.relevance import Relevance, input_relevance
from r2d2net.shrinkage.selection import Selection, select
from r2d2net.shrinkage.smaller_network import SmallerNetwork, load_smaller
from r2d2net.shrinkage.units import remove_units

__all__ = [
    "Compressed",
    "Contributions",
    "Interactions",
    "PartialDependence",
    "Pruned",
    "PruningCurve",
    "Quantised",
    "Relevance",
    "Selection",
    "SmallerNetwork",
    "compress",
    "contributions",
    "effective_weights",
    "input_relevance",
    "interactions",
    "load_quantised",
    "load_smaller",
    "partial_dependence",
    "prune",
    "pruning_curve",
    "quantise",
    "remove_units",
    "select",
]
