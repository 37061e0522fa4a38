"""Inference algorithms, one file each. The contract is in `base`."""

from r2d2net import registry
from r2d2net.errors import ParameterError
from r2d2net.inference.base import Draws, DrawSource, Info, Method, Trainer
from r2d2net.inference.cavi import CAVI
from r2d2net.inference.deep_ensemble import DeepEnsemble
from r2d2net.inference.dpn import DPN
from r2d2net.inference.edl import EDL
from r2d2net.inference.hmc import HMC
from r2d2net.inference.map import MAP
from r2d2net.inference.mc_dropout import MCDropout
from r2d2net.inference.mean_field_draws import VariationalState
from r2d2net.inference.mfvi import MFVI
from r2d2net.inference.radial import Radial
from r2d2net.inference.sghmc import SGHMC
from r2d2net.inference.sgld import SGLD
from r2d2net.inference.svgi import SVGI
from r2d2net.inference.svi import SVI

ALGORITHMS = registry.ALGORITHMS.class_names


def method_named(algorithm: Method | str) -> Method:
    """Look up an algorithm.

    Args:
        algorithm: An object of an algorithm, or its name, in upper or lower case, for the default settings.

    Returns:
        The algorithm with its settings.

    Raises:
        ParameterError: If there is no such algorithm, or a class was given in place of an object.

    Example:
        >>> method_named("sgld").thin is None
        True
    """
    if isinstance(algorithm, str) and algorithm.lower() in registry.ALGORITHMS:
        method: Method = registry.ALGORITHMS.constructor(algorithm.lower())()
        return method
    if isinstance(algorithm, type) and issubclass(algorithm, Method):
        fix = f"write {algorithm.__name__}()"
        raise ParameterError("is a class", argument="algorithm", value=algorithm, fix=fix)
    if not isinstance(algorithm, Method):
        fix = f"use one of {', '.join(sorted(registry.ALGORITHMS))}, or of r2d2net.inference"
        raise ParameterError("is no algorithm", argument="algorithm", value=algorithm, fix=fix)
    return algorithm


__all__ = [
    "ALGORITHMS",
    "CAVI",
    "DPN",
    "EDL",
    "HMC",
    "MAP",
    "MFVI",
    "SGHMC",
    "SGLD",
    "SVGI",
    "SVI",
    "DeepEnsemble",
    "DrawSource",
    "Draws",
    "Info",
    "MCDropout",
    "Method",
    "Radial",
    "Trainer",
    "VariationalState",
    "method_named",
]
