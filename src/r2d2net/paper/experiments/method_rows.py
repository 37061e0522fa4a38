"""The rows of the paper's tables: which prior and which algorithm each stands for.

The paper's names: Gauss, HS (horseshoe), SaS (spike-and-slab), R2D2; SVI, MFVI, Radial, SGLD, SGMCMC (our SGHMC), SVGI;
Freq (MAP), MCD (MC dropout), DE (deep ensembles), EDL, DPN. Where the paper says SVI for a hierarchical prior, ours is
SVI with coordinate-ascent factors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from r2d2net import inference, priors
from r2d2net.inference import Method
from r2d2net.model import AnyPrior


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
        # in no table of the paper: rivals by the algorithm of R2D2-Net, else prior and algorithm would change together
        Row("gauss-svgi", "Gauss", "SVGI"),
        Row("hs-svgi", "HS", "SVGI"),
        Row("sas-svgi", "SaS", "SVGI"),
        Row("adaptive-svgi", "Adaptive", "SVGI"),  # ours
    )
}

# in no table of the paper
OURS = {row.name for row in ROWS.values() if row.algorithm == "SVGI" and row.prior != "R2D2"}

PRIORS: dict[str, AnyPrior] = {
    "HS": priors.Horseshoe(),
    "SaS": priors.SpikeSlab(),
    "R2D2": priors.R2D2(),
    "Adaptive": priors.R2D2.adaptive(),
}
WITHOUT_PRIOR = {"Freq": "MAP", "MCD": "MCDropout", "DE": "DeepEnsemble", "EDL": "EDL", "DPN": "DPN"}
ALGORITHMS = {"SGMCMC": "SGHMC"}  # where our name is another


def prior_of(row: str) -> AnyPrior:
    """The prior of a row's weights; rows that the paper gives no prior have the Gaussian's weight decay."""
    return PRIORS.get(ROWS[row].prior, priors.Gaussian())


def method_of(row: str, **settings: Any) -> Method:
    """The algorithm of a row with these settings."""
    _, prior, algorithm = ROWS[row]
    name = WITHOUT_PRIOR.get(prior) or ALGORITHMS.get(algorithm, algorithm)
    return getattr(inference, name)(**settings)
