"""Inference algorithms, one file each. What an algorithm is stands in `base`."""

from r2d2net.inference.base import Draws, Info, Method, Running
from r2d2net.inference.cavi import CAVI
from r2d2net.inference.deep_ensemble import DeepEnsemble
from r2d2net.inference.dpn import DPN
from r2d2net.inference.edl import EDL
from r2d2net.inference.hmc import HMC
from r2d2net.inference.map import MAP
from r2d2net.inference.mc_dropout import MCDropout
from r2d2net.inference.mfvi import MFVI
from r2d2net.inference.radial import Radial
from r2d2net.inference.sghmc import SGHMC
from r2d2net.inference.sgld import SGLD
from r2d2net.inference.svgi import SVGI
from r2d2net.inference.svi import SVI
from r2d2net.inference.variational import VariationalState

ALGORITHMS = (
    "SVGI",
    "CAVI",
    "SVI",
    "MFVI",
    "Radial",
    "MAP",
    "MCDropout",
    "DeepEnsemble",
    "EDL",
    "DPN",
    "SGLD",
    "SGHMC",
    "HMC",
)

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
    "Draws",
    "Info",
    "MCDropout",
    "Method",
    "Radial",
    "Running",
    "VariationalState",
]
