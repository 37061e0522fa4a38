"""What linear chains are for: regression with a learnt noise, or classes; each hides its sweep behind the same calls.

    Regression   one row of weights for each output, sigma^2 learnt, flat intercept           (`linear_sweep`)
    Classes      one row for each of three or more classes, or one for the log odds of two    (`linear_classes`)

The softmax of two logits depends on their difference d alone, so with two outputs the layer has rows -d / 2 and d / 2,
and the prior is on d: two classes by a softmax or by a Bernoulli likelihood have the same posterior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference import linear_classes, linear_sweep
from r2d2net.inference.linear_classes import ClassChains, ClassProblem, class_problem
from r2d2net.inference.linear_loo import Moments, class_moments, regression_moments
from r2d2net.inference.linear_problem import EXACT, LinearProblem, linear_problem
from r2d2net.inference.linear_rows import at_means
from r2d2net.inference.linear_sweep import Hyper
from r2d2net.likelihoods import Bernoulli, Categorical, Gaussian
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.log_normal import NORMAL
from r2d2net.likelihoods.weighted import Weighted, is_normal
from r2d2net.model import BayesianModel

LOGISTIC = math.log(math.pi / math.sqrt(3))  # of the standard deviation of a logistic variable


class Targets(ABC):
    """The kind of targets that linear chains are for.

    Args:
        hyper: The prior.
        outputs: Number of the layer's outputs.
        intercept: Whether the layer has a bias.

    Attributes:
        rows: Number of rows of weights of a chain.
        left_out: Number of quantities of a row that are left out together.
        least_rows: Number of training rows that are needed.
        leaves_out: Whether there are leave-one-out moments; rows with weights have none.
        starts_jointly: Whether `start` takes a problem of several runs, as `joined` makes it.
    """

    def __init__(self, hyper: Hyper, outputs: int, *, intercept: bool) -> None:
        self.hyper, self.outputs, self.intercept = hyper, outputs, intercept
        self.rows = self.left_out = outputs
        self.least_rows = 1
        self.leaves_out, self.starts_jointly = True, False

    def first(self, chains: int, inputs: int, generator: torch.Generator) -> ClassChains:
        """Draw scales from the prior; all else waits for `start`.

        Args:
            chains: Number of chains.
            inputs: Number of inputs.
            generator: Source of randomness.

        Returns:
            The chains.
        """
        linear = linear_sweep.first_chains(self.hyper, chains * self.rows, inputs, generator)
        return ClassChains(linear, torch.zeros_like(linear.log_g))

    @abstractmethod
    def problem(self, x: Tensor, y: Tensor) -> Any:
        """Prepare inputs (n, p) and targets as the likelihood has them."""

    @abstractmethod
    def joined(self, problems: Sequence[Any], chains: int) -> Any:
        """Join problems of as many rows to one, in which each chain has its own inputs and targets.

        Args:
            problems: The problems, of runs one after the other.
            chains: Number of chains of each.

        Returns:
            The problem of all chains.
        """

    @abstractmethod
    def start(self, problem: Any, chains: ClassChains, generator: torch.Generator) -> ClassChains:
        """Find where the chains start."""

    @abstractmethod
    def sweep(self, problem: Any, chains: ClassChains, generator: torch.Generator, learning_rate: float) -> ClassChains:
        """Take one sweep; intercepts are those of inputs that are not centred."""

    @abstractmethod
    def moments(self, problem: Any, chains: ClassChains, generator: torch.Generator) -> Moments:
        """Compute leave-one-out moments, (chains, outputs or 1, n)."""

    @abstractmethod
    def noise(self, chains: ClassChains) -> Noise:
        """Return the noise of each chain, (chains, outputs)."""

    def layer(self, values: Tensor) -> Tensor:
        """Lay out what belongs to rows of weights as the layer's outputs.

        Args:
            values: Weights or intercepts, (chains * rows, ...).

        Returns:
            The same for the layer, (chains, outputs, ...).
        """
        return values.unflatten(0, (-1, self.rows))

    @abstractmethod
    def monitored(self, fitted: Tensor, noise: Noise) -> Tensor:
        """Lay out the quantities whose R-hat is computed.

        Args:
            fitted: Outputs of some rows, (chains, draws, outputs, rows).
            noise: Noise of the draws, (chains, draws, outputs).

        Returns:
            The quantities, (chains, draws, number).
        """


class Regression(Targets):
    """Real targets with a learnt noise."""

    def __init__(self, hyper: Hyper, outputs: int, *, intercept: bool, weighted: Weighted | None = None) -> None:
        super().__init__(hyper, outputs, intercept=intercept)
        self.least_rows = 1 + int(intercept)
        self.weighted = weighted
        self.leaves_out = weighted is None

    def problem(self, x: Tensor, y: Tensor) -> LinearProblem:
        if self.weighted is not None:
            own, shares = self.weighted.parts(y.to(EXACT))
            return linear_problem(x, own, intercept=self.intercept, weights=self.weighted.mean * shares)
        return linear_problem(x, y, intercept=self.intercept)

    def joined(self, problems: Sequence[LinearProblem], chains: int) -> LinearProblem:
        def of_chains(values: Sequence[Tensor]) -> Tensor:
            return torch.stack(list(values)).repeat_interleave(chains * self.rows, 0)

        grams = [problem.gram for problem in problems if problem.gram is not None]
        return LinearProblem(
            x=of_chains([problem.x for problem in problems]),
            y=torch.cat([problem.y.repeat(1, chains) for problem in problems], 1),
            x_mean=of_chains([problem.x_mean for problem in problems]),
            y_mean=torch.cat([problem.y_mean.repeat(chains) for problem in problems]),
            mean_square=of_chains([problem.mean_square for problem in problems]),
            degrees=problems[0].degrees,
            gram=of_chains(grams) if grams else None,
        )

    def start(self, problem: LinearProblem, chains: ClassChains, generator: torch.Generator) -> ClassChains:
        return chains._replace(linear=linear_sweep.start(problem, self.hyper, chains.linear, generator))

    def sweep(
        self, problem: LinearProblem, chains: ClassChains, generator: torch.Generator, learning_rate: float
    ) -> ClassChains:
        linear = linear_sweep.sweep(problem, self.hyper, chains.linear, generator, learning_rate)
        if not self.intercept:
            return chains._replace(linear=linear)
        y_mean = problem.y_mean.repeat(len(linear.variance) // len(problem.y_mean))
        center = y_mean - at_means(problem.x_mean, linear.weights)
        noise = torch.empty_like(center).normal_(generator=generator)
        return ClassChains(linear, center + (linear.variance / (problem.degrees + 1)).sqrt() * noise)

    def moments(self, problem: LinearProblem, chains: ClassChains, generator: torch.Generator) -> Moments:
        return Moments(*(self.layer(v) for v in regression_moments(problem, self.hyper, chains.linear)))

    def noise(self, chains: ClassChains) -> Noise:
        return {"variance": self.layer(chains.linear.variance)}

    def monitored(self, fitted: Tensor, noise: Noise) -> Tensor:
        return torch.cat([fitted.flatten(2), noise["variance"].to(EXACT).log()], -1)


class Classes(Targets):
    """Class labels by a softmax of the outputs, or 0 and 1 by one logit."""

    def __init__(self, hyper: Hyper, outputs: int, *, intercept: bool) -> None:
        super().__init__(hyper, outputs, intercept=intercept)
        self.rows, self.left_out = outputs if outputs > 2 else 1, 1
        self.starts_jointly = True  # by sweeps, which cost as much as those that follow

    def problem(self, x: Tensor, y: Tensor) -> ClassProblem:
        labels = y.reshape(-1).long()
        hits = labels.unsqueeze(0) == torch.arange(max(2, self.outputs), device=y.device).unsqueeze(-1)
        return class_problem(x, hits[-self.rows :].unsqueeze(0), intercept=self.intercept)

    def joined(self, problems: Sequence[ClassProblem], chains: int) -> ClassProblem:
        def of_chains(values: Sequence[Tensor], rows: int = 1) -> Tensor:
            return torch.stack(list(values)).repeat_interleave(chains * rows, 0)

        return ClassProblem(
            x=of_chains([problem.x for problem in problems]),
            hits=torch.cat([problem.hits.expand(chains, -1, -1) for problem in problems]),
            x_mean=of_chains([problem.x_mean for problem in problems], self.rows),
            mean_square=of_chains([problem.mean_square for problem in problems], self.rows),
        )

    def start(self, problem: ClassProblem, chains: ClassChains, generator: torch.Generator) -> ClassChains:
        chains = linear_classes.start(problem, self.hyper, chains, generator)
        return chains._replace(intercept=chains.intercept - at_means(problem.x_mean, chains.linear.weights))

    def sweep(
        self, problem: ClassProblem, chains: ClassChains, generator: torch.Generator, learning_rate: float
    ) -> ClassChains:
        chains = chains._replace(intercept=chains.intercept + at_means(problem.x_mean, chains.linear.weights))
        chains = linear_classes.sweep(problem, self.hyper, chains, generator, learning_rate)
        return chains._replace(intercept=chains.intercept - at_means(problem.x_mean, chains.linear.weights))

    def moments(self, problem: ClassProblem, chains: ClassChains, generator: torch.Generator) -> Moments:
        centred = chains._replace(intercept=chains.intercept + chains.linear.weights @ problem.x_mean)
        return Moments(*(v.unsqueeze(1) for v in class_moments(problem, self.hyper, centred, generator)))

    def noise(self, chains: ClassChains) -> Noise:
        return {}

    def layer(self, values: Tensor) -> Tensor:
        rows = super().layer(values)
        return torch.cat([-rows / 2, rows / 2], 1) if self.outputs == 2 else rows

    def monitored(self, fitted: Tensor, noise: Noise) -> Tensor:
        """Lay out centred logits, squeezed by asinh since those of separable classes have heavy tails."""
        centred = fitted - fitted.mean(2, keepdim=True) if self.outputs > 1 else fitted
        return torch.asinh(centred).flatten(2)


def targets_of(
    model: BayesianModel[Any], hyper: Hyper, outputs: int, *, intercept: bool, intercept_scale: float
) -> Targets:
    """Choose the kind of targets by the model's likelihood.

    Args:
        model: The model.
        hyper: The prior.
        outputs: Number of the layer's outputs.
        intercept: Whether the layer has a bias.
        intercept_scale: For classes, standard deviation of the intercepts' prior.

    Returns:
        The kind of targets.

    Raises:
        ParameterError: The likelihood is neither Gaussian with a learnt noise nor one of classes.
    """
    shown: dict[str, Any] = {"argument": "algorithm", "value": Shown("LinearGibbs")}
    likelihood = model.likelihood
    weighted = likelihood if isinstance(likelihood, Weighted) else None
    if weighted is not None and is_normal(weighted):
        likelihood = weighted.own
    elif weighted is not None:
        fix = "use MCLMC or SVGI"
        raise ParameterError("takes weights of rows for normal noise alone", fix=fix, **shown)
    if type(likelihood) in (Categorical, Bernoulli):
        if type(likelihood) is Categorical and outputs < 2:
            problem = "needs an output for each class, and the network has 1"
            raise ParameterError(problem, fix="give it one for each class, or likelihood=Bernoulli()", **shown)
        scale = intercept_scale if intercept else 0.0
        classes = hyper._replace(log_unit=LOGISTIC, intercept_scale=scale)
        return Classes(classes, outputs, intercept=intercept)
    if not isinstance(likelihood, Gaussian) or type(likelihood) not in NORMAL:
        fix = "use another algorithm, such as SVGI"
        problem = f"needs a Gaussian, LogNormal, Bernoulli or Categorical likelihood, not {type(likelihood).__name__}"
        raise ParameterError(problem, fix=fix, **shown)
    if not likelihood.learns_noise:
        fix = "give likelihood=Gaussian(), or use HMC"
        raise ParameterError("learns the noise, and the likelihood has a known one", fix=fix, **shown)
    return Regression(hyper, outputs, intercept=intercept, weighted=weighted)
