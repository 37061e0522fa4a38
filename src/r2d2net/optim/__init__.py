"""Variational inference as optimisers of torch, for training loops of one's own (see `optim.variational`)."""

from r2d2net.optim.algorithms import CAVI, MFVI, SVGI, SVI, Radial
from r2d2net.optim.variational import VariationalOptimizer

__all__ = ["CAVI", "MFVI", "SVGI", "SVI", "Radial", "VariationalOptimizer"]
