"""What chains of networks draw exactly given the weights: noise, the scales of the priors, and a linear path.

    e | w            the likelihood's own draw, given the outputs for all rows
    s | w            the prior's own Gibbs sweep, chains side by side; it renews the precision c = 1 / v(s)
    A, sigma^2, g, s | f      for networks y = A x + f(x) + noise (`nets.LinearPath`) with a learnt Gaussian noise:

given f, the residuals y - f(x) are a linear regression on x, of which `linear_sweep` draws the scale g, the noise
sigma^2 and A as one block and then A's scales, under A_j ~ N(0, sigma^2 g^2 v_j(s)) with a uniform prior on R2, as
`LinearGibbs` does. So A is never stuck behind a global scale that thousands of weights hold in its place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference import linear_sweep
from r2d2net.inference.linear_problem import EXACT, LinearProblem, linear_problem
from r2d2net.inference.linear_sweep import Chains, Hyper
from r2d2net.likelihoods.base import Noise
from r2d2net.likelihoods.log_normal import NORMAL
from r2d2net.model import BayesianModel, Slot
from r2d2net.nets.linear_path import LinearPath
from r2d2net.priors import ScaleMixturePrior

NOISE = 1e-3  # shape and rate of the noise's prior beside a linear path
PATH = "linear.weight"


class ScaleState(NamedTuple):
    """What the weights' prior is at present.

    Attributes:
        scales: Parameter name -> the prior's scales, with a first dimension of chains.
        precision: c = 1 / v, (chains, weights).
        path: The chains of the linear path, (chains * outputs, ...); empty without one.
    """

    scales: dict[str, Any]
    precision: Tensor
    path: dict[str, Chains]


class ChainGibbs:
    """Exact draws given the weights, bound to a model.

    Args:
        model: The model.
        chains: Number of chains.
        weight: Power to which the likelihood is raised, 1 over the temperature.
    """

    def __init__(self, model: BayesianModel[Any], chains: int, weight: float) -> None:
        self.model, self.chains, self.weight = model, chains, weight
        self.path = path_of(model) if weight == 1 else None
        prior = None if self.path is None else self.path.prior
        self.hyper = None if prior is None else Hyper(prior, 1.0, 1.0, NOISE, NOISE)
        self.others = [slot for slot in model.bayesian if self.path is None or slot.name != self.path.name]

    def init(self, generator: torch.Generator) -> ScaleState:
        """Draw all scales from their priors.

        Args:
            generator: Source of randomness.

        Returns:
            The scales.
        """
        model, chains = self.model, self.chains
        options: dict[str, Any] = {"dtype": model.dtype, "device": model.device}
        scales = {
            slot.name: slot.prior.init_scales(
                (chains, *slot.shape), generator, groups=(chains, *[1] * len(slot.shape)), **options
            )
            for slot in self.others
            if slot.prior is not None and slot.prior.has_scales
        }
        path = {}
        if self.path is not None and self.hyper is not None:
            outputs, inputs = self.path.shape
            path[PATH] = linear_sweep.first_chains(self.hyper, chains * outputs, inputs, generator)
        return ScaleState(scales, torch.ones(chains, model.size, **options), path)

    def draw_scales(self, state: ScaleState, weights: Tensor, generator: torch.Generator) -> ScaleState:
        """Draw the scales of every prior but the linear path's, given the weights.

        Args:
            state: The scales, whose precision is written over.
            weights: Weights of the chains, (chains, weights).
            generator: Source of randomness.

        Returns:
            The new scales.
        """
        scales = dict(state.scales)
        for slot in self.others:
            assert slot.prior is not None
            own = slot.of(state.precision)
            if slot.prior.known_deviation is not None:
                own.fill_(slot.prior.known_deviation**-2)
                continue
            scales[slot.name] = slot.prior.gibbs(slot.of(weights), scales[slot.name], generator)
            own.copy_(slot.prior.variance(scales[slot.name]).reciprocal())
        return state._replace(scales=scales)

    def draw_noise(self, output: Tensor, y: Tensor, noise: Noise, generator: torch.Generator) -> Noise:
        """Draw the learnt parameters of the likelihood of every chain.

        Args:
            output: Outputs of the networks for all rows, (chains, rows, width).
            y: Targets.
            noise: Current values, (chains, ...).
            generator: Source of randomness.

        Returns:
            The new values.
        """
        if not noise:
            return noise
        gibbs, chains = self.model.likelihood.gibbs, range(self.chains)
        own = [{name: tensor[i] for name, tensor in noise.items()} for i in chains]
        drawn = [gibbs(output[i], y, own[i], generator, self.weight) for i in chains]
        return {name: torch.stack([each[name] for each in drawn]) for name in noise}

    def draw_path(
        self,
        state: ScaleState,
        weights: Tensor,
        output: Tensor,
        batch: tuple[Tensor, Tensor],
        generator: torch.Generator,
        learning_rate: float,
        *,
        starts: bool = False,
    ) -> tuple[ScaleState, Tensor, Noise]:
        """Draw the linear path, its scales and the noise given the network beside it.

        Args:
            state: The scales, whose precision is written over.
            weights: Weights of the chains, (chains, weights).
            output: Outputs of the networks for all rows, (chains, rows, outputs).
            batch: Inputs and targets of all rows.
            generator: Source of randomness.
            learning_rate: Speed at which the Metropolis step of the path's scale is learnt.
            starts: Whether the path is still to be found, from ridge regression of the residuals.

        Returns:
            The new scales, weights and noise.
        """
        assert self.path is not None
        assert self.hyper is not None
        slot, (x, y), chains = self.path, batch, state.path[PATH]
        design = x.flatten(1)
        beside = output - design @ slot.of(weights).mT
        problem = self._problem(design, y, beside)
        if starts:
            chains = linear_sweep.start(problem, self.hyper, chains, generator)
        chains = linear_sweep.sweep(problem, self.hyper, chains, generator, learning_rate)
        weights = weights.clone()
        slot.of(weights).copy_(chains.weights.view(self.chains, *slot.shape))
        variance = self.hyper.prior.variance(chains.scales)
        prior_precision = torch.exp(-2 * chains.log_g.unsqueeze(-1)) / (chains.variance.unsqueeze(-1) * variance)
        limits = torch.finfo(weights.dtype)
        prior_precision = prior_precision.clamp(limits.tiny, limits.max)
        slot.of(state.precision).copy_(prior_precision.view(self.chains, *slot.shape))
        noise = {"variance": chains.variance.view(self.chains, -1).to(weights.dtype)}
        return state._replace(path={PATH: chains}), weights, noise

    def _problem(self, design: Tensor, y: Tensor, beside: Tensor) -> LinearProblem:
        """Return the regression of the residuals, a column for each chain and output."""
        residuals = (y - beside).to(EXACT).permute(1, 0, 2).flatten(1)
        return linear_problem(design, residuals, intercept=False)


def path_of(model: BayesianModel[Any]) -> Slot | None:
    """Return the weights of a linear path that has an exact sampler.

    Args:
        model: The model.

    Returns:
        The place of the path's weights; None where the network has no linear path, its weights have no prior that can
        be swept in both directions, or the likelihood is not Gaussian with a learnt noise.
    """
    likelihood = model.likelihood
    if not isinstance(model.net, LinearPath) or type(likelihood) not in NORMAL or not likelihood.learns_noise:
        return None
    slot = next((slot for slot in model.bayesian if slot.name == PATH), None)
    if slot is None or slot.prior is None:
        return None
    reversible = slot.prior.draws_scales_jointly or (
        type(slot.prior).gibbs_reversed is not ScaleMixturePrior.gibbs_reversed
    )
    return slot if reversible else None
