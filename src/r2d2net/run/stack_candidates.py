"""The models of a table that stacking combines, each a special case of y = A x + f(x).

    linear     f = 0     exact Gibbs sampling, under a Gaussian, the adaptive and (numbers only) the R2D2 prior; where
                         the likelihood has no exact sampler, chains or SVGI under a Gaussian and the R2D2 prior
    network    A = 0     a perceptron under R2D2, by chains where gradients of all rows are affordable, else by SVGI
    both                 the same beside a linear path; without chains A first (`LinearFirst`) or, for classes, SVGI

Where rows have weights, exact Gibbs sampling is for normal noise alone, and `LinearFirst` for none.

What is affordable is what ``algorithm="auto"`` thinks so (`choice`). With more inputs than rows and no chains there are
linear models, and for numbers `LinearFirst`; where even linear chains are not affordable, for classes, linear models by
`MCLMC` or SVGI.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from r2d2net.inference import MCLMC, SVGI, LinearFirst, LinearGibbs, Method
from r2d2net.likelihoods import Bernoulli, Categorical, Likelihood
from r2d2net.likelihoods.gaussian import Gaussian as GaussianLikelihood
from r2d2net.likelihoods.weighted import Weighted, is_normal
from r2d2net.model import AnyPrior
from r2d2net.priors import R2D2, Gaussian
from r2d2net.run.choice import LARGEST_GRADIENT, epochs_for, linear_is_affordable

Form = Literal["linear", "network", "both"]
EXACT = (GaussianLikelihood, Categorical, Bernoulli)  # likelihoods that LinearGibbs samples exactly
SWEEPS, CLASS_SWEEPS = 600, 250  # budgets of linear chains: what is left of their error is small beside the folds'


class Shape(NamedTuple):
    """Sizes of a table and of the perceptron for it."""

    rows: int
    inputs: int
    hidden: tuple[int, ...]
    outputs: int

    @property
    def weights(self) -> int:
        """Number of weights of the network with a linear path."""
        widths = (self.inputs, *self.hidden, self.outputs)
        layers = sum((a + 1) * b for a, b in pairwise(widths))
        return layers + self.inputs * self.outputs


class Candidate(NamedTuple):
    """A model and how it is fitted.

    Attributes:
        name: What the report calls it.
        form: Which parts of y = A x + f(x) it has.
        prior: Prior of its weights.
        method: The algorithm.
        epochs: Length of a run.
    """

    name: str
    form: Form
    prior: AnyPrior
    method: Method
    epochs: int


def candidates_for(shape: Shape, likelihood: Likelihood[Any]) -> list[Candidate]:
    """List the models for a table.

    Args:
        shape: Sizes of table and network.
        likelihood: The likelihood on the network's scale, with learnt noise where it has any.

    Returns:
        The candidates, linear ones first; at least one.
    """
    found = [*_linear(shape, likelihood), *_networks(shape, likelihood)]
    return found or list(_linear_without_exact(shape))


def _linear(shape: Shape, likelihood: Likelihood[Any]) -> Iterator[Candidate]:
    classes = likelihood.has_classes
    weighs = isinstance(likelihood, Weighted)
    if not is_normal(likelihood) if weighs else type(likelihood) not in EXACT:
        if _has_linear_chains(shape) or shape.inputs < shape.rows:
            yield from _linear_without_exact(shape)
        return
    if not linear_is_affordable(shape.rows, shape.inputs, shape.outputs, has_classes=classes):
        return
    method = LinearGibbs(loo_draws=0, calibrate=False)  # rows left out by the folds do both
    priors: dict[str, AnyPrior] = {"Gaussian": Gaussian(), "adaptive R2D2": R2D2.adaptive()}
    if not classes:
        priors["R2D2"] = R2D2()
    for name, prior in priors.items():
        yield Candidate(f"linear, {name}", "linear", prior, method, CLASS_SWEEPS if classes else SWEEPS)


def _has_linear_chains(shape: Shape) -> bool:
    return shape.rows * shape.outputs * (shape.inputs + 1) <= LARGEST_GRADIENT


def _linear_without_exact(shape: Shape) -> Iterator[Candidate]:
    method: Method = MCLMC() if _has_linear_chains(shape) else SVGI()
    epochs = epochs_for(shape.rows, None, method)
    yield Candidate("linear, Gaussian", "linear", Gaussian(), method, epochs)
    yield Candidate("linear, R2D2", "linear", R2D2(), method, epochs)


def _networks(shape: Shape, likelihood: Likelihood[Any]) -> Iterator[Candidate]:
    rows = shape.rows
    chains = rows * shape.weights <= LARGEST_GRADIENT
    alone: Method = MCLMC() if chains else SVGI()
    beside: Method = MCLMC() if chains else LinearFirst() if isinstance(likelihood, GaussianLikelihood) else SVGI()
    methods: Sequence[tuple[Form, str, Method]] = (
        ("network", "network", alone),
        ("both", "linear path and network", beside),
    )
    for form, name, method in methods:
        if isinstance(method, SVGI) and shape.inputs >= rows:
            continue  # mean-field inference has nothing to say there
        yield Candidate(f"{name}, R2D2", form, R2D2(), method, epochs_for(rows, None, method))
