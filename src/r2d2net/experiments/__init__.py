"""The paper's tables and figures, one declaration each; `artefact` says what one is, `grid` how its cells are run."""

from r2d2net.experiments import ood, simulation
from r2d2net.experiments.artefact import SCALES, Artefact, Scale

ARTEFACTS: dict[str, Artefact] = {one.name: one for one in (simulation.ARTEFACT, ood.MNIST, ood.CIFAR10, ood.DRD)}

__all__ = ["ARTEFACTS", "SCALES", "Artefact", "Scale"]
