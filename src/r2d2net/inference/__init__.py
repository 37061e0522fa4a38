"""Inference algorithms, one file each. What an algorithm is stands in `base`."""

from r2d2net.inference.base import Info, Method, Running
from r2d2net.inference.cavi import CAVI
from r2d2net.inference.svgi import SVGI
from r2d2net.inference.svi import SVI
from r2d2net.inference.variational import VariationalState

__all__ = ["CAVI", "SVGI", "SVI", "Info", "Method", "Running", "VariationalState"]
