"""Networks drawn from their priors, and the targets that they predict before any data.

    w ~ the priors of a model,     f = net(x; w),     y_new | f ~ the likelihood

`r2d2net.priors.elicit` uses it where rows or a network are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net.errors import DataError, ParameterError, Value, require_instance
from r2d2net.forward_draws import forward_draws
from r2d2net.inference.base import Draws
from r2d2net.likelihoods import Gaussian, Likelihood, StudentT
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.likelihoods.gamma import PositiveAmounts
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.likelihoods.negative_binomial import DispersedCounts
from r2d2net.likelihoods.student_t import HeavyTailed
from r2d2net.model import AnyPrior, BayesianModel, Slot, refusing_inputs
from r2d2net.network_inputs import Units, for_model, measure_units
from r2d2net.parameter_roles import copied
from r2d2net.prediction import Classification, Counts, Prediction, Regression
from r2d2net.priors.elicitation import participation, stated_shapes
from r2d2net.priors.elicited import Elicited, Implied
from r2d2net.priors.latent_noise import GUMBEL, LOGISTIC, likelihood_name
from r2d2net.registry import LIKELIHOODS

ROWS = 200  # of normal inputs, where none are given
AT_ONCE = 1 << 23  # weights that are drawn at a time
LARGEST_RATE = 1e15


def elicited(
    priors: Mapping[str, AnyPrior | BayesianModel[Any]],
    net: nn.Module | None,
    likelihood: Any,
    x: Any,
    y: Any,
    noise: float | None,
    draws: int,
    seed: int,
) -> Elicited:
    """Draw what priors imply for a network, or for a linear model, at rows.

    Args:
        priors: The priors, or models, by name.
        net: The network; None for that of a model, or else for one linear layer.
        likelihood: The likelihood, an object or a name; None for that of a model, or else Gaussian.
        x: The rows; None for normal inputs.
        y: Observed targets; None for none.
        noise: Standard deviation of the noise; None for what the likelihood or the prior says.
        draws: Number of draws from each prior.
        seed: Seed of the draws.

    Returns:
        The draws.
    """
    given = next((each for each in priors.values() if isinstance(each, BayesianModel)), None)
    own = _likelihood(given.likelihood if likelihood is None and given is not None else likelihood)
    if net is None:
        net = nn.Linear(_rows(x).shape[1], _width(own, y)) if given is None else copied(given.net).requires_grad_(True)
    models = {
        name: each if isinstance(each, BayesianModel) else BayesianModel(net, each, own)
        for name, each in priors.items()
    }
    model = next(iter(models.values()))
    if x is None:
        generator = torch.Generator().manual_seed(int(seed))
        inputs = _first_columns(model)
        if inputs is None:
            raise ParameterError("is missing: the network's inputs are no table", argument="x", fix="give some rows")
        x = torch.randn(ROWS, inputs, generator=generator)
    table = for_model(x, model)
    target = None if y is None else own.target(torch.as_tensor(y))
    if target is not None and len(target) != len(table if isinstance(table, Tensor) else table[0]):
        raise DataError(("has ", Value(len(target)), " rows"), argument="y", fix="give as many as x has")
    reference = torch.zeros(2, 1, dtype=model.dtype) if target is None else own.network_scale(target)
    known = target is not None and own.standardizes
    units = measure_units(table, reference, inputs=True, targets=known)
    found = [_implied(name, each, units, table, reference, noise, draws, seed) for name, each in models.items()]
    implied, label = tuple(each for each, _ in found), "new targets"
    if own.has_classes:
        label = "probability of class 1" if found[0][1] == 2 else "probability of the most probable class"
    return Elicited(implied, None if own.has_classes or target is None else target.double().cpu(), label)


def prior_draws(model: BayesianModel[Any], draws: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Draw Bayesian weights from their priors.

    Args:
        model: The model.
        draws: Number of draws.
        generator: Source of randomness, on the model's device.

    Returns:
        The weights, (draws, weights), and the prior variances of each parameter given its scales, (draws, *shape).
    """
    weights = torch.empty(draws, model.size, dtype=model.dtype, device=model.device)
    variances = {}
    for slot in model.bayesian:
        assert slot.prior is not None
        groups = (draws, *[1] * len(slot.shape))
        options: dict[str, Any] = {"dtype": torch.float64, "device": model.device}
        scales = slot.prior.init_scales((draws, *slot.shape), generator, groups=groups, **options)
        v = variances[slot.name] = slot.prior.variance(scales)
        drawn = v.sqrt() * torch.empty_like(v).normal_(generator=generator)
        slot.of(weights).copy_(drawn.clamp(-1e30, 1e30))
    return weights, variances


def replicate(prediction: Prediction, generator: torch.Generator) -> Tensor | None:
    """Draw a new target of each row for each draw of a prediction.

    Args:
        prediction: The prediction.
        generator: Source of randomness, on its device.

    Returns:
        The targets, in the shape of its samples; for classes probabilities, (draws, rows, 1): of class 1 of two, or of
        the most probable one. None for other kinds of predictions.
    """
    mean = prediction.samples.double()
    normal = torch.empty_like(mean).normal_(generator=generator)
    if isinstance(prediction, Regression):
        return mean + prediction.noise_variance.double().sqrt() * normal
    if isinstance(prediction, LogRegression):
        log = replicate(prediction.log, generator)
        return None if log is None else log.exp()
    if isinstance(prediction, HeavyTailed):
        df = prediction.df.double().expand(mean.shape)
        chi = 2 * torch._standard_gamma(df / 2, generator=generator)
        return mean + prediction.scale.double() * normal * (df / chi).sqrt()
    if isinstance(prediction, PositiveAmounts):
        k = prediction.shape.double().expand(mean.shape)
        return prediction.log_mean.double().exp() * torch._standard_gamma(k, generator=generator) / k
    if isinstance(prediction, DispersedCounts):
        k = prediction.concentration.double().expand(mean.shape)
        mean = mean * torch._standard_gamma(k, generator=generator) / k
    if isinstance(prediction, (Counts, DispersedCounts)):
        return torch.poisson(mean.nan_to_num(posinf=LARGEST_RATE).clamp(max=LARGEST_RATE), generator=generator)
    if isinstance(prediction, Classification):
        return mean[..., 1:] if mean.shape[-1] == 2 else mean.amax(-1, keepdim=True)
    return None


def _implied(
    name: str,
    model: BayesianModel[Any],
    units: Units,
    table: Any,
    reference: Tensor,
    noise: float | None,
    draws: int,
    seed: int,
) -> tuple[Implied, int]:
    """Return what a model's priors imply, and the width of a prediction."""
    generator = torch.Generator(model.device).manual_seed(int(seed))
    x, own = units.inputs(table), model.likelihood
    settings = _noise(model, reference, units, noise)
    first, inputs = _input_slots(model)
    shares, effective, targets, functions = [], [], [], []
    at_once = max(1, AT_ONCE // model.size)
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        weights, variances = prior_draws(model, count, generator)
        networks = Draws.sharing(weights, model.own_weights()[1], model.buffers(), settings)
        with torch.no_grad(), refusing_inputs(x):
            outputs = forward_draws(model, networks, x, rows=1000, memory=1 << 26, vectorize=None)
        explained, unexplained = own.explained_and_noise(outputs.double(), networks.noise)
        shares.append((explained / (explained + unexplained)).nan_to_num(nan=1.0).mean(-1))
        prediction = own.predict(outputs, networks.noise, _in_units(units.y, model))
        new = replicate(prediction, generator)
        targets += [] if new is None else [new.cpu()]
        functions.append(prediction.samples.double().cpu())
        if first:
            by_input = torch.stack([variances[slot.name].sum(1) for slot in first]).sum(0)
            effective.append(participation(by_input).cpu())
    curve, width = None, functions[0].shape[-1]
    if inputs == 1 and not own.has_classes and width == 1:
        curve = (table[:, 0].cpu(), torch.cat(functions)[..., 0])
    r2, counted = torch.cat(shares).cpu(), torch.cat(effective) if effective else None
    drawn = torch.cat(targets) if targets else None
    return Implied(name, r2, counted, inputs, _stated(model, settings), drawn, curve), width


def _stated(model: BayesianModel[Any], settings: Noise) -> tuple[float, float] | None:
    """Return the shapes of R2's beta distribution, where the prior of a linear model gives it one."""
    slots, _ = _input_slots(model)
    own = model.likelihood
    if not model.is_linear or not slots or slots[0].prior is None:
        return None
    if isinstance(own, Gaussian):
        unit = float(settings["variance"].mean())
    elif own.has_classes:
        unit = slots[0].shape[0] * GUMBEL if own.is_softmax else LOGISTIC
    else:
        return None
    return stated_shapes(slots[0].prior, unit)


def _noise(model: BayesianModel[Any], reference: Tensor, units: Units, noise: float | None) -> Noise:
    """Return the learnt parameters of the likelihood: as it begins, but for the variance of the noise."""
    own = model.likelihood
    settings = own.init(units.targets(reference).to(model.device), units.y if own.standardizes else None)
    known = isinstance(own, Gaussian) and own.noise is not None
    if "variance" not in settings:
        if noise is not None:
            fix = "leave it out"
            raise ParameterError("is not for these targets", argument="noise", value=noise, fix=fix)
        return settings
    if known and noise is None:
        return settings
    prior = next((slot.prior for slot in model.bayesian if len(slot.shape) > 1), None)
    deviation = getattr(prior, "sigma0", 1.0) if noise is None else noise
    variance = torch.full_like(settings["variance"], float(deviation) ** 2)
    if isinstance(own, StudentT):  # the noise's variance, not the squared scale
        variance = variance * (settings["df"] - 2) / settings["df"]
    return {**settings, "variance": variance}


def _likelihood(likelihood: Any) -> Likelihood[Any]:
    if likelihood is None:
        return Gaussian()
    if isinstance(likelihood, str):
        name = likelihood_name(likelihood)
        try:
            own: Likelihood[Any] = LIKELIHOODS.constructor(name)()
        except TypeError:
            fix = "give an object of r2d2net.likelihoods, such as Ordinal(3)"
            raise ParameterError("needs arguments", argument="likelihood", value=likelihood, fix=fix) from None
        return own
    require_instance(likelihood, Likelihood, "likelihood", "likelihood", "use one of r2d2net.likelihoods")
    given: Likelihood[Any] = likelihood
    return given


def _rows(x: Any) -> Tensor:
    table = for_model(x, BayesianModel(nn.Linear(1, 1)))
    if not isinstance(table, Tensor) or table.dim() != 2:
        raise DataError("is no table", argument="x", fix="give rows and columns, or a network")
    return table


def _width(likelihood: Likelihood[Any], y: Any) -> int:
    """Return the number of outputs of a linear model."""
    if y is None:
        return 2 if likelihood.is_softmax or likelihood.outputs(torch.zeros(2, 1)) == 2 else 1
    target = likelihood.target(torch.as_tensor(y))
    return likelihood.outputs(target) or int(target.max()) + 1


def _input_slots(model: BayesianModel[Any]) -> tuple[list[Slot], int]:
    """Return the weight matrices that take the network's inputs, and the number of these; none for images."""
    names = model.input_weights
    slots = [slot for slot in model.bayesian if slot.name in names and len(slot.shape) == 2]
    return slots, slots[0].shape[1] if slots else 0


def _first_columns(model: BayesianModel[Any]) -> int | None:
    return _input_slots(model)[1] or None


def _in_units(unit: Unit, model: BayesianModel[Any]) -> Unit:
    most = None if unit.most is None else unit.most.to(model.device)
    return Unit(unit.center.to(model.device), unit.scale.to(model.device), most)
