"""Inference algorithms, one file each. The contract is in `base`."""

from r2d2net import registry
from r2d2net.inference.base import Draws, DrawSource, Info, Method, Trainer, method_named
from r2d2net.inference.cavi import CAVI
from r2d2net.inference.deep_ensemble import DeepEnsemble
from r2d2net.inference.dpn import DPN
from r2d2net.inference.edl import EDL
from r2d2net.inference.hmc import HMC
from r2d2net.inference.linear_first import LinearFirst
from r2d2net.inference.linear_gibbs import LinearGibbs
from r2d2net.inference.map import MAP
from r2d2net.inference.mc_dropout import MCDropout
from r2d2net.inference.mclmc import MCLMC
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.inference.mfvi import MFVI
from r2d2net.inference.radial import Radial
from r2d2net.inference.sghmc import SGHMC
from r2d2net.inference.sgld import SGLD
from r2d2net.inference.svgi import SVGI
from r2d2net.inference.svi import SVI

ALGORITHMS = registry.ALGORITHMS.class_names


__all__ = [
    "ALGORITHMS",
    "CAVI",
    "DPN",
    "EDL",
    "HMC",
    "MAP",
    "MCLMC",
    "MFVI",
    "SGHMC",
    "SGLD",
    "SVGI",
    "SVI",
    "DeepEnsemble",
    "DrawSource",
    "Draws",
    "Info",
    "LinearFirst",
    "LinearGibbs",
    "MCDropout",
    "Method",
    "Radial",
    "Trainer",
    "VariationalState",
    "method_named",
]
