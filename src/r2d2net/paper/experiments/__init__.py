"""The paper's tables and figures by name, each declared in a module of its own that is imported on first use.

`artefact` says what a declaration is, `grid` what its cells are and where their results lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from r2d2net.paper.experiments.artefact import Artefact

TITLES = {
    "simulation": "test MSE and inference error on simulated regressions",
    "ood-mnist": "out-of-distribution detection, LeNet on MNIST",
    "ood-cifar10": "out-of-distribution detection, LeNet on CIFAR-10",
    "ood-drd": "out-of-distribution detection on retinas (a stand-in for the paper's set)",
    "classification-lenet": "image classification with LeNet",
    "classification-alexnet": "image classification with AlexNet",
    "architectures": "four architectures on CIFAR-10",
    "priors": "densities of shrinkage priors, and their rates at zero and in the tail",
    "prediction-bands": "predictive means and bands of the designs on y = x^3 + e",
    "weight-densities": "draws of the first-layer weights nearest zero",
    "hyperparameters": "test MSE of an R2D2 MLP as a_pi, b and rho_0 vary",
    "filters": "the five largest-norm filters of the designs on CIFAR-10",
    "learning-curves": "training and validation loss of the BNN designs by epoch, LeNet on CIFAR-10",
    "complexity": "parameters of the networks, and what each design stores and costs",
    "regimes": "every prior on sparse, big, dense and nonlinear truths (ours; the paper has none)",
    "pruning": "smaller networks by zeros and by units, under each prior (ours; the paper has none)",
    "covariate-shift": "LeNet on CIFAR-10, test images corrupted at five severities (ours; the paper has none)",
    "temperature": "LeNet on CIFAR-10 as the weight of the KL falls from 1 to 0.001 (ours; the paper has none)",
    "uci": "error and log density on UCI regressions (ours; the paper has none)",
}
DECLARATIONS = {  # module and variable, where they are not the name's own module and ARTEFACT
    "ood-mnist": "ood_detection:MNIST",
    "ood-cifar10": "ood_detection:CIFAR10",
    "ood-drd": "ood_detection:DRD",
    "classification-lenet": "classification:BY_LENET",
    "classification-alexnet": "classification:BY_ALEXNET",
    "architectures": "classification:BY_ARCHITECTURE",
    "priors": "prior_shapes:ARTEFACT",
}


class _Declared(Mapping[str, "Artefact"]):
    """Name -> artefact, in the order of the titles; looking one up imports its module."""

    def __getitem__(self, name: str) -> Artefact:
        if name not in TITLES:
            raise KeyError(name)
        declaration = DECLARATIONS.get(name, f"{name.replace('-', '_')}:ARTEFACT")
        return resolve_name(f"{__name__}.{declaration}")

    def __iter__(self) -> Iterator[str]:
        return iter(TITLES)

    def __len__(self) -> int:
        return len(TITLES)


ARTEFACTS: Mapping[str, Artefact] = _Declared()

__all__ = ["ARTEFACTS", "TITLES"]
