"""A network made Bayesian: any nn.Module, priors by parameter name, a likelihood.

The module is copied and never changed; its parameters live in two flat vectors, one of Bayesian weights and one of
deterministic ones, and a forward pass lends views of them to the module through `torch.func.functional_call`. So
attention, recurrent layers and tied weights work as they are, and a draw is a state dict of the plain network.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.stateless import _reparametrize_module
from typing_extensions import TypeVar

from r2d2net.errors import Argument, DataError, ParameterError, R2D2NetError, Shown, Value, require_instance
from r2d2net.frozen_parts import FrozenParts, copy_sharing
from r2d2net.graphs.context import Context
from r2d2net.likelihoods import Gaussian as GaussianLikelihood
from r2d2net.likelihoods import Likelihood
from r2d2net.nets.linear_path import LinearPath
from r2d2net.nets.perceptron import MLP
from r2d2net.network_calls import Output, pick, require_names, require_output, unwrapped
from r2d2net.network_parts import (
    keep_rows,
    kept_rows,
    make_dense,
    parts_in_evaluation,
    train,
    warn_of_moving_statistics,
)
from r2d2net.network_start import Start, suited_start
from r2d2net.parameter_roles import LENGTH, NORM, TENSORS, roles_of
from r2d2net.prediction import Prediction, PredictionT
from r2d2net.prior_assignment import AnyPrior as AnyPrior
from r2d2net.prior_assignment import assign_priors, frozen_names, require_learnable, require_unfrozen
from r2d2net.priors import R2D2, Gaussian, ScaleMixturePrior

if TYPE_CHECKING:
    import pandas as pd

OtherT = TypeVar("OtherT", bound=Prediction)
Tensors = dict[str, Tensor]
NEUTRAL = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout)  # layers that leave a linear network linear


class Slot(NamedTuple):
    """Position of one parameter tensor of the network in a flat vector.

    Attributes:
        name: Name of the parameter.
        shape: Shape of the parameter.
        start: First position.
        stop: Position after the last.
        prior: Prior of the parameter; None for a deterministic one.
    """

    name: str
    shape: torch.Size
    start: int
    stop: int
    prior: AnyPrior | None

    def of(self, flat: Tensor) -> Tensor:
        """Return the parameter's view of a flat vector.

        Args:
            flat: Flat vector of all parameters, (..., size).

        Returns:
            The view, (..., *shape).
        """
        return flat.narrow(-1, self.start, self.stop - self.start).view((*flat.shape[:-1], *self.shape))


class BayesianModel(Generic[PredictionT]):
    """A network, a prior for each of its parameters, and a likelihood.

    Args:
        net: Any module. It is copied, except for the memory of its frozen parameters; the original is never changed.
        prior: Prior of every weight tensor (two or more dimensions, outside normalisation layers; `summary` shows the
            role of each parameter, and `parameter_roles` says how it is found), or a mapping from
            name patterns such as ``"head.*.weight"`` to priors, of which the first that matches is used: weights that
            no pattern matches are then deterministic, and so are those whose pattern has None. R2D2 by default.
        likelihood: Distribution of the targets given the outputs; Gaussian by default.
        bias: Prior of the remaining parameters outside normalisation layers; None leaves them deterministic.
        norm: Prior of normalisation layers' parameters; deterministic by default.
        deterministic: Patterns of parameters that are deterministic, that is trained without a prior, whatever the
            other arguments say.
        frozen: Patterns of parameters that are neither Bayesian nor trained but keep the network's values, whatever
            the other arguments say. By default those that do not require a gradient (``requires_grad=False``);
            () freezes none.
        inputs: Names of the arguments that the network takes its inputs by; a dict of data may have more entries. None
            takes them by position, and those of a dict by the names that it has.
        output: Which of several outputs counts: the name of a field, its number, or a function of all that the network
            returns (hand it to `load` too). By default a tensor as it is, ``logits`` of a dict or dataclass or the only
            tensor of it, and the first of a tuple.

    Raises:
        ParameterError: If an argument is of the wrong kind, or a pattern matches no parameter.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
        >>> BayesianModel(net, prior=R2D2())
        BayesianModel(26 Bayesian and 0 deterministic parameters)
    """

    context: Context | None = None  # what the network reads beside the numbers of the rows

    def __init__(
        self,
        net: nn.Module,
        prior: AnyPrior | Mapping[str, AnyPrior | None] | None = None,
        likelihood: Likelihood[PredictionT] | None = None,
        *,
        bias: AnyPrior | None = Gaussian(1.0),  # noqa: B008 (priors are immutable)
        norm: AnyPrior | None = None,
        deterministic: Sequence[str] = (),
        frozen: Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
        output: Output = None,
    ) -> None:
        chosen: Any = GaussianLikelihood() if likelihood is None else likelihood
        self.likelihood: Likelihood[PredictionT] = chosen
        require_instance(chosen, Likelihood, "likelihood", "likelihood", "use one of r2d2net.likelihoods")
        require_module(net)
        net = unwrapped(net)
        self.inputs, self.output = require_names(inputs), require_output(output)
        self._standing: ExitStack | None = None
        lazy = [name for name, parameter in net.named_parameters() if nn.parameter.is_lazy(parameter)]
        if lazy:
            raise ParameterError(
                f"has parameters without a shape ({lazy[0]})", argument="net", fix="run it once on data first"
            )
        given = dict(net.named_parameters())
        if not given:
            raise ParameterError("has no parameters", argument="net", fix="there is nothing to learn")
        self.frozen = frozen_names(given, frozen)
        self.net = copy_sharing(net, self.frozen)
        every = dict(self.net.named_parameters())
        self._in_evaluation = parts_in_evaluation(self.net, self.frozen)
        make_dense(self.net)
        self.net.requires_grad_(False)
        self.frozen_parts = FrozenParts(self.net, self.frozen)
        parameters = {name: parameter for name, parameter in every.items() if name not in self.frozen}
        require_learnable(parameters)
        require_unfrozen(prior, every, self.frozen)
        chosen_prior = R2D2() if prior is None else prior
        self.roles = roles_of(self.net)
        priors = assign_priors(
            every, parameters, self.roles, chosen_prior, bias, norm, deterministic, _input_weights(self.net)
        )
        self.bayesian = _slots({n: p for n, p in parameters.items() if priors[n] is not None}, priors)
        self.fixed = _slots({n: p for n, p in parameters.items() if priors[n] is None}, priors)
        if not self.bayesian:
            fix = "give at least one parameter a prior"
            raise ParameterError("leaves every parameter deterministic", argument="prior", fix=fix)
        self.size = self.bayesian[-1].stop
        self.fixed_size = self.fixed[-1].stop if self.fixed else 0
        self._aliases = _aliases(self.net)
        self.kept_rows = kept_rows(self.net, parameters)

    def __repr__(self) -> str:
        count = sum(self.net.get_parameter(name).numel() for name in self.frozen)
        kinds = f"{self.size} Bayesian and {self.fixed_size} deterministic parameters"
        return f"BayesianModel({kinds}, {count} frozen)" if count else f"BayesianModel({kinds})"

    def summary(self) -> pd.DataFrame:
        """Tabulate what becomes of every parameter.

        Returns:
            A row for each parameter of the network: what it is to its module (see `parameter_roles`), shape, count,
            prior ("deterministic" without one, "frozen" where it keeps its value), and He's deviation sqrt(2 / fan-in),
            the unit of its steps and of its start.

        Example:
            >>> BayesianModel(nn.Sequential(nn.Linear(8, 5), nn.LayerNorm(5)), prior=Gaussian()).summary()
                          role  shape  count                prior  unit
            parameter
            0.weight    weight  5 x 8     40  Gaussian(scale=1.0)   0.5
            0.bias        bias      5      5  Gaussian(scale=1.0)   0.5
            1.weight      norm      5      5        deterministic   1.0
            1.bias        norm      5      5        deterministic   1.0
        """
        import pandas as pd

        scales = {"bayesian": self.he_scale(), "fixed": self.fixed_he_scale()}
        units = {slot.name: float(slot.of(scales["bayesian"]).reshape(-1)[0]) for slot in self.bayesian}
        units |= {slot.name: float(slot.of(scales["fixed"]).reshape(-1)[0]) for slot in self.fixed}
        priors = {slot.name: repr(slot.prior) for slot in self.bayesian}
        priors |= dict.fromkeys(self.frozen, "frozen")
        rows = [
            {
                "parameter": name,
                "role": self.roles[name],
                "shape": " x ".join(map(str, parameter.shape)) or "1",
                "count": parameter.numel(),
                "prior": priors.get(name, "deterministic"),
                "unit": units.get(name, math.nan),
            }
            for name, parameter in self.net.named_parameters()
        ]
        return pd.DataFrame(rows).set_index("parameter")

    @property
    def device(self) -> torch.device:
        return self.net.get_parameter(self.bayesian[0].name).device

    @property
    def dtype(self) -> torch.dtype:
        return self.net.get_parameter(self.bayesian[0].name).dtype

    @property
    def input_weights(self) -> set[str]:
        """Names of the weights that take the network's inputs: its first weight tensor, and that of a linear path."""
        return _input_weights(self.net)

    @property
    def has_attention(self) -> bool:
        """Whether a module that is trained is one of attention: its class says so, by its name or ``has_attention``."""
        learnt = {id(self.net.get_parameter(slot.name)) for slot in (*self.bayesian, *self.fixed)}
        return any(
            any(id(parameter) in learnt for parameter in module.parameters())
            for module in self.net.modules()
            if "attention" in type(module).__name__.lower() or getattr(module, "has_attention", False) is True
        )

    @property
    def is_linear(self) -> bool:
        """Whether the network is one Linear layer, apart from layers that only reshape or drop."""
        inner = [module for module in self.net.modules() if type(module) not in (nn.Sequential, MLP)]
        linear = [module for module in inner if type(module) is nn.Linear]
        return len(linear) == 1 and all(type(module) in (nn.Linear, *NEUTRAL) for module in inner)

    def with_prior(self, prior: AnyPrior) -> Self:
        """Copy the model with another prior on every Bayesian weight tensor; other parameters keep their priors.

        Args:
            prior: The prior.

        Returns:
            The new model.

        Raises:
            ParameterError: If ``prior`` is no prior, or the model has no Bayesian weight tensor.

        Example:
            >>> model = BayesianModel(nn.Linear(3, 1), bias=Gaussian(2.0)).with_prior(R2D2.paper())
            >>> [slot.prior for slot in model.bayesian]
            [R2D2(a_pi=0.6, b=0.5, sigma0=1.0), Gaussian(scale=2.0)]
        """
        require_instance(prior, ScaleMixturePrior, "prior", "prior", "use one of r2d2net.priors")
        weights = {slot.name for slot in self.bayesian if self.roles[slot.name] in TENSORS}
        if not weights:
            fix = "give one weight matrix of the model a prior"
            raise ParameterError("has no place", argument="prior", value=prior, fix=fix)
        model = copy.copy(self)
        model._copy_net(self)
        inputs = self.input_weights
        own = {name: prior if not prior.for_inputs or name in inputs else prior.elsewhere() for name in weights}
        for slot in self.bayesian:
            if slot.name in own:
                own[slot.name].require_layer(slot.name, slot.shape)
        model.bayesian = tuple(s._replace(prior=own.get(s.name, s.prior)) for s in self.bayesian)
        return model

    def with_likelihood(self, likelihood: Likelihood[OtherT]) -> BayesianModel[OtherT]:
        """Copy the model with another likelihood.

        Args:
            likelihood: The likelihood.

        Returns:
            The new model.

        Raises:
            ParameterError: If ``likelihood`` is no likelihood.

        Example:
            >>> BayesianModel(nn.Linear(3, 1)).with_likelihood(GaussianLikelihood(noise=0.1)).likelihood
            Gaussian(noise=0.1)
        """
        require_instance(likelihood, Likelihood, "likelihood", "likelihood", "use one of r2d2net.likelihoods")
        model: Any = copy.copy(self)
        model._copy_net(self)
        model.likelihood = likelihood
        return cast("BayesianModel[OtherT]", model)

    def on(self, context: Context | None) -> Self:
        """Copy the model for a network that reads a graph, or a set of graphs, beside the numbers of the rows.

        Args:
            context: The graph or graphs; None for a network whose inputs are all in the rows.

        Returns:
            The new model, with the same network.

        Example:
            >>> from r2d2net import graphs, nets
            >>> graph = graphs.Graph(torch.eye(3), [[0, 1, 1, 2], [1, 0, 2, 1]])
            >>> BayesianModel(nets.GCN(3, [4], 2)).on(graph).context
            Graph(3 nodes, 4 edges, 3 features)
        """
        model = copy.copy(self)
        model.context = None if context is None else context.to(self.device, self.dtype)
        return model

    def _copy_net(self, source: BayesianModel[Any]) -> None:
        self.net = copy_sharing(source.net, source.frozen)
        self.frozen_parts = FrozenParts(self.net, source.frozen)

    def own_weights(self) -> tuple[Tensor, Tensor]:
        """Collect the network's current parameters in flat vectors.

        Returns:
            The Bayesian weights and the deterministic parameters.
        """
        parameters = dict(self.net.named_parameters())
        return _gather(self.bayesian, parameters, self), _gather(self.fixed, parameters, self)

    def he_scale(self) -> Tensor:
        """Compute He's scale sqrt(2 / fan-in) of every Bayesian weight.

        Returns:
            The scales, (weights,); vectors such as biases have the scale of their layer, or 1 without one.
        """
        return self._he_scale(self.bayesian, self.size)

    def fixed_he_scale(self) -> Tensor:
        """Compute He's scale of every deterministic parameter, as `he_scale` does for Bayesian weights.

        Returns:
            The scales, (deterministic parameters,).
        """
        return self._he_scale(self.fixed, self.fixed_size)

    def _he_scale(self, slots: Sequence[Slot], size: int) -> Tensor:
        scale = torch.ones(size, dtype=self.dtype, device=self.device)
        fan = {s.name.rpartition(".")[0]: fan_in(s.shape) for s in self.bayesian + self.fixed if len(s.shape) > 1}
        for slot in slots:
            width = fan_in(slot.shape) if len(slot.shape) > 1 else fan.get(slot.name.rpartition(".")[0], 2)
            slot.of(scale).fill_(math.sqrt(2 / width))
        return scale

    def he_start(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Draw a start: Bayesian weight matrices from He's normal distribution, Bayesian biases zero.

        All other parameters keep the network's values; deterministic ones may be those of a pretrained network.

        Args:
            generator: Source of randomness, on the model's device; None for torch's global generator.

        Returns:
            The Bayesian weights and the deterministic parameters.
        """
        mean, fixed = self.own_weights()
        for slot in self.bayesian:
            if self.roles[slot.name] in (NORM, LENGTH):
                continue
            if len(slot.shape) > 1:
                slot.of(mean).normal_(generator=generator).mul_(math.sqrt(2 / fan_in(slot.shape)))
            elif slot.name.endswith("bias"):
                slot.of(mean).zero_()
        return mean, fixed

    def buffers(self) -> Tensors:
        """Copy the module's buffers (running statistics), which training carries in its state.

        Returns:
            The buffers by name.
        """
        return {name: tensor.detach().clone() for name, tensor in self.net.named_buffers()}

    def parameters(self, weights: Tensor, fixed: Tensor) -> Tensors:
        """Split flat vectors into named parameters.

        Args:
            weights: Bayesian weights, (weights,).
            fixed: Deterministic parameters, (deterministic parameters,).

        Returns:
            Views of the vectors by the names of the module's parameters.
        """
        named = {slot.name: slot.of(weights) for slot in self.bayesian}
        named.update({slot.name: slot.of(fixed) for slot in self.fixed})
        return named

    def forward(self, weights: Tensor, fixed: Tensor, buffers: Tensors, x: Any, *, training: bool = False) -> Tensor:
        """Compute the network's output at one draw.

        Args:
            weights: Bayesian weights, (weights,).
            fixed: Deterministic parameters, (deterministic parameters,).
            buffers: Buffers by name, updated in place in training mode.
            x: A tensor, or a tuple of tensors for a network of several inputs.
            training: Run the network in training mode.

        Returns:
            The output.

        Raises:
            ParameterError: If the network does not return a tensor.
        """
        if training:
            self.train(self.net)
        else:
            self.net.eval()
        return self.call(self.net, {**self.parameters(weights, fixed), **buffers}, x)

    def train(self, net: nn.Module) -> None:
        """Set the network, or a variant of it, to training mode, but for parts that were given in evaluation mode.

        Parts without parameters to learn keep their mode (see `network_parts`).

        Args:
            net: The network or a variant with the same names of modules.
        """
        train(net, self._in_evaluation)

    def suited_start(self) -> Start:
        """Decide what a fit starts from where the user does not say: weights of a trained network, or new ones.

        Returns:
            The start, and what to tell the user.
        """
        learnt = {slot.name for slot in (*self.bayesian, *self.fixed)}
        return suited_start(self.net, learnt, has_frozen=bool(self.frozen))

    def warn_of_moving_statistics(self) -> None:
        """Warn if running statistics of frozen parts would change, since these were given in training mode."""
        warn_of_moving_statistics(self.net, self.frozen, self._in_evaluation)

    def with_kept_rows(self, tensors: Tensors) -> Tensors:
        """Give tensors the network's own padding rows of embeddings.

        Args:
            tensors: Parameters by name, with or without a first dimension of draws.

        Returns:
            The tensors by name, changed ones as copies.
        """
        if not self.kept_rows:
            return tensors
        kept = {
            name: keep_rows(tensors[name], self.net.get_parameter(name), row)
            for name, row in self.kept_rows
            if name in tensors
        }
        return {**tensors, **kept}

    def call(self, net: nn.Module, tensors: Tensors, x: Any) -> Tensor:
        """Compute the output of the network, or of a variant of it, with given parameters and buffers.

        Args:
            net: The network or a variant with the same names of parameters.
            tensors: Parameters and buffers by name.
            x: A tensor, or a tuple of tensors for a network of several inputs, in the order of `inputs`.

        Returns:
            The output.

        Raises:
            ParameterError: If the network returns no tensor that counts.
        """
        tensors = self.with_kept_rows(tensors)
        # Torch's own tying would not restore the tensors of a module that has two names.
        tied = {alias: tensors[name] for alias, name in self._aliases.items() if name in tensors}
        every = {**tensors, **tied}

        def run(*arguments: Any) -> Any:
            names = None if self.inputs is None or self.context is not None else self.inputs
            named = None if names is None else dict(zip(names, arguments, strict=True))
            positions = arguments if named is None else ()
            if self._standing is None:
                return functional_call(net, every, positions, named, tie_weights=False)
            self._standing.enter_context(_reparametrize_module(net, every))
            return net(*positions, **(named or {}))

        if self.context is not None:
            output = self.context.outputs(run, x)
        else:
            output = run(*x) if isinstance(x, tuple) else run(x)
        return pick(output, self.output)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Let the parameters of calls stand in the network to the end of the context, for the backward pass.

        Parts under gradient checkpointing are computed again there, and must find the parameters of the first time.

        Yields:
            Nothing.
        """
        with ExitStack() as self._standing:
            try:
                yield
            finally:
                standing, self._standing = self._standing, None
                standing.close()

    def with_inputs(self, inputs: Sequence[str]) -> Self:
        """Copy the model with names of the arguments that its network takes its inputs by.

        Args:
            inputs: The names.

        Returns:
            The new model, whose network is the same object.
        """
        model = copy.copy(self)
        model.inputs = require_names(inputs)
        return model

    def state_dict(self, weights: Tensor, fixed: Tensor, buffers: Tensors) -> Tensors:
        """Convert one draw to a state dict of the plain network, tied names included.

        Args:
            weights: Bayesian weights, (weights,).
            fixed: Deterministic parameters, (deterministic parameters,).
            buffers: Buffers by name.

        Returns:
            The state dict, with copies of the tensors; frozen parameters have the values of the model's network.
        """
        self.frozen_parts.require_unchanged()
        named = {**self.with_kept_rows(self.parameters(weights, fixed)), **buffers, **self.frozen_parts.tensors}
        plain = self.net.state_dict(keep_vars=True)
        by_identity = {id(t): name for name, t in (*self.net.named_parameters(), *self.net.named_buffers())}
        return {
            key: named[key if key in named else by_identity[id(value)]].detach().clone() for key, value in plain.items()
        }


def require_module(net: object) -> None:
    """Raise a `ParameterError` unless ``net`` is a module."""
    if not isinstance(net, nn.Module):
        raise ParameterError(("is a ", Value(type(net))), argument="net", fix="give a torch.nn.Module")


@contextmanager
def refusing_inputs(x: Any) -> Iterator[None]:
    """Convert the exceptions of a network that cannot process its inputs to a `DataError` of one line."""
    try:
        yield
    except (R2D2NetError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        parts = x if isinstance(x, tuple) else (x,)
        shapes = " and ".join(f"{tuple(part.shape)} {part.dtype}" for part in parts)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem = ("does not take ", Argument("x"), " of shape ", Value(Shown(shapes)), f": {reason}")
        raise DataError(problem, argument="net") from error


def _input_weights(net: nn.Module) -> set[str]:
    """Return the names of the weights that take a network's inputs: its first ones, and those of a linear path."""
    first = next((name for name, parameter in net.named_parameters() if parameter.dim() > 1), None)
    if isinstance(net, LinearPath):
        return {"linear.weight", *(f"net.{name}" for name in _input_weights(net.net))}
    return set() if first is None else {first}


def norm_names(net: nn.Module) -> set[str]:
    """Return the names of the parameters of normalisation layers."""
    return {name for name, role in roles_of(net).items() if role == NORM}


def _aliases(net: nn.Module) -> dict[str, str]:
    """Map further names of tensors that several modules share to their first name."""
    first: dict[int, str] = {}
    aliases: dict[str, str] = {}
    for prefix, module in net.named_modules():
        own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
        for name, tensor in own.items():
            full = f"{prefix}.{name}" if prefix else name
            if first.setdefault(id(tensor), full) != full:
                aliases[full] = first[id(tensor)]
    return aliases


def _slots(parameters: Mapping[str, Tensor], priors: Mapping[str, AnyPrior | None]) -> tuple[Slot, ...]:
    slots, start = [], 0
    for name, parameter in parameters.items():
        slots.append(Slot(name, parameter.shape, start, start + parameter.numel(), priors[name]))
        start += parameter.numel()
    return tuple(slots)


def _gather(slots: Sequence[Slot], parameters: Mapping[str, Tensor], model: BayesianModel[Any]) -> Tensor:
    if not slots:
        return torch.zeros(0, dtype=model.dtype, device=model.device)
    return torch.cat([parameters[slot.name].detach().reshape(-1) for slot in slots])


def fan_in(shape: torch.Size) -> int:
    """Return the number of inputs of each unit of a weight tensor: all dimensions but the first.

    Args:
        shape: Shape of the weights.

    Returns:
        The number, at least 1.
    """
    return max(1, math.prod(shape[1:]))
