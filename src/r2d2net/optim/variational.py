"""Variational inference as an optimiser of torch: three changed lines in a loop of your own.

    opt = rn.optim.SVGI(net, R2D2(), n=len(data), likelihood=Categorical(), steps=epochs * len(loader))
    for x, y in loader:
        opt.zero_grad()
        with opt.sampled_params():              # the parameters are a draw w = mu + s e of q
            opt.nll(net(x), y).backward()       # or any other mean negative log likelihood
        opt.step()                              # they are the means mu again
    posterior = opt.posterior()

The step is that of the engine of `fit` (`inference.variational`): with g the gradient at the draw, mu has the gradient
g and log s the gradient g (w - mu), to which the engine adds those of the KL. Both are made of ``parameter.grad``, so
what other tools do to it (clipping, unscaling, accumulation, averaging over processes) holds for both. Where a step
has several draws the second is summed as they come, in the gradient of a parameter of the optimiser's own: the second
of its ``param_groups``, whose ``lr`` is that of the deviations.

Loops that cannot enclose the backward pass call ``opt.train()``, after which the parameters are a draw until
``opt.eval()``, a new one after every step; those that call ``opt.step(closure)`` need nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from r2d2net.errors import Argument, FitWarning, ParameterError, Shown, require_instance, require_whole
from r2d2net.inference.base import flatten, unflatten
from r2d2net.inference.mean_field_family import VariationalState, in_log_scale
from r2d2net.inference.variational import Gradients, MeanField, Variational
from r2d2net.likelihoods.base import Likelihood, Noise
from r2d2net.likelihoods.masked import masked_for
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.network_inputs import Units
from r2d2net.optim.bare_parameters import BareNetwork, bare_network, moved_to
from r2d2net.optim.live_parameters import Gradients as Kept
from r2d2net.optim.live_parameters import LiveParameters
from r2d2net.posterior import Posterior
from r2d2net.priors import Gaussian

STEPS = 1000  # of a run whose length the user does not say: its first 600 steps raise the weight of the KL
OF_THE_LOOP = {  # settings of `fit` that a loop of one's own has in other forms
    "draws": "sum the losses of several draws, each in a sampled_params() of its own, divided by their number",
    "clip": "call torch.nn.utils.clip_grad_norm_ before step()",
    "autocast": "use torch.autocast in the loop",
    "compile": "use torch.compile on the network",
    "estimator": "an optimiser draws weights",
    "start": "an optimiser starts from the network's own weights",
}
FAR = 100.0  # standard deviations of targets that are no longer near 1
OUTSIDE = "call backward() inside `with opt.sampled_params():`, and zero_grad() after step()"


class VariationalOptimizer(torch.optim.Optimizer):
    """Mean-field variational inference as a `torch.optim.Optimizer`; SVGI, CAVI, SVI, MFVI and Radial derive from it.

    Args:
        params: The network, or its parameters. Of parameters alone nobody can tell biases from the scales of
            normalisation layers: there vectors have no prior, and `posterior` needs the network.
        prior: Prior of the weights, as in `BayesianModel`; R2D2 by default.
        n: Number of training rows, which weighs the data against the prior.
        steps: Number of steps of the whole run, by which the learning rate, its schedule and the rise of the KL's
            weight are chosen. None: as of 1,000 steps, without a fall of the learning rate.
        likelihood: Distribution of the targets, for `nll` and `posterior`.
        lr: Largest step size in units of He's deviation (`Training`); None decides by ``steps``.
        lr_rho: Step size of the deviations; by default a share of lr.
        schedule: "cosine" lets the step size fall as in `fit`, "constant" leaves it to a scheduler of torch. None is
            "cosine" where ``steps`` is given and no scheduler has been made of this optimiser. Either rises over the
            first 5% of the steps.
        bias: Prior of the parameters that are neither weights nor of normalisation layers, as in `BayesianModel`.
        norm: Prior of the parameters of normalisation layers.
        deterministic: Patterns of parameters without a prior.
        frozen: Patterns of parameters that are not trained; by default those that do not require a gradient.
        seed: Seed of the draws.
        generator: Source of the draws in place of the seed, on the network's device.
        settings: Other arguments of the algorithm in `r2d2net.inference`, such as ``temperature`` or ``sweep_every``.

    Raises:
        ParameterError: If an argument is out of range, or belongs to the loop.
    """

    method: ClassVar[type[Variational]]

    def __init__(
        self,
        params: nn.Module | Iterable[Any],
        prior: Any = None,
        *,
        n: int,
        steps: int | None = None,
        likelihood: Likelihood[Any] | None = None,
        lr: float | None = None,
        lr_rho: float | None = None,
        schedule: str | None = None,
        bias: AnyPrior | None = Gaussian(1.0),  # noqa: B008 (priors are immutable)
        norm: AnyPrior | None = None,
        deterministic: Sequence[str] = (),
        frozen: Sequence[str] | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
        **settings: Any,
    ) -> None:
        require_whole("n", n)
        if steps is not None:
            require_whole("steps", steps)
        if likelihood is not None:
            require_instance(likelihood, Likelihood, "likelihood", "likelihood", "use one of r2d2net.likelihoods")
        self.length, self.schedule, self.n = steps, schedule, int(n)
        self.settings = self._method(lr=lr, lr_rho=lr_rho, schedule=schedule or "cosine", **settings)
        self.net = _unwrapped(params) if isinstance(params, nn.Module) else bare_network(params)
        if isinstance(self.net, BareNetwork):
            bias, deterministic = None, (*deterministic, *self.net.vectors())
        self.likelihood = likelihood
        self._roles: dict[str, Any] = {"bias": bias, "norm": norm, "deterministic": deterministic, "frozen": frozen}
        self._prior, self._seed, self._generator = prior, int(seed), generator
        self.trainer = self._build()
        lr_used = self.trainer.descent.largest_step
        model, own = self.trainer.model, dict(self.net.named_parameters())
        self.weights = LiveParameters(model.bayesian, [own[slot.name] for slot in model.bayesian])
        self.fixed = LiveParameters(model.fixed, [own[slot.name] for slot in model.fixed])
        self._rho = nn.Parameter(torch.zeros(model.size, dtype=model.dtype, device=model.device))
        super().__init__(
            [
                {"params": [*self.weights.parameters, *self.fixed.parameters], "lr": lr_used},
                {"params": [self._rho], "lr": self.trainer.rho_rate(lr_used)},
            ],
            {"lr": lr_used},
        )
        self.training = False
        self._state: VariationalState | None = None  # made at the first use, when the network is where it will be
        self._drawn: Tensor | None = None
        self._scale: Tensor | None = None
        self._under_kept: list[tuple[Tensor, Tensor]] = []  # rows of the draw that are not shown, and their draws
        self._inside = False
        self._pending = False  # whether the gradients of the parameters are those of the present draw alone
        self._stash: Kept | None = None
        self._next_noise: Noise | None = None
        self._flat_target, self._has_output = True, False

    def _method(self, **settings: Any) -> Variational:
        known = {field.name for field in fields(self.method)}
        for name, value in settings.items():
            if name in OF_THE_LOOP:
                problem = "is a setting of fit"
                raise ParameterError(problem, argument=name, value=value, fix=OF_THE_LOOP[name])
            if name not in known:
                fix = f"use one of {', '.join(sorted(known - OF_THE_LOOP.keys()))}"
                raise ParameterError(f"is no argument of {self.method.__name__}", argument=name, value=value, fix=fix)
        return self.method(start="net", estimator="weights", **settings)

    def _build(self) -> MeanField:
        model: BayesianModel[Any] = BayesianModel(self.net, self._prior, self.likelihood, **self._roles)
        trainer = self.settings.build(model, n=self.n, steps=STEPS if self.length is None else self.length)
        assert isinstance(trainer, MeanField)
        return trainer

    # --- the state

    @property
    def posterior_state(self) -> VariationalState:
        """The state of q, made at the first use: means, deviations, scales of the priors, Adam's moments."""
        self._begin()
        assert self._state is not None
        return self._state

    def _begin(self) -> None:
        """Make the state, or follow parameters to which something else gave other memory."""
        if self._state is None:
            self._start()
        elif self.weights.are_elsewhere() or self.fixed.are_elsewhere():
            if not (self.weights.fits() and self.fixed.fits()):
                if int(self._state.step):
                    problem = "moved to another device or dtype after the first step"
                    raise ParameterError(problem, argument="net", fix="make the optimiser after moving it")
                self.trainer = self._build()
                self._start()
            else:
                self.weights.write_to(self._state.mean)
                self.fixed.write_to(self._state.fixed)
            self._show()

    @torch.no_grad()
    def _start(self) -> None:
        own = dict(self.net.named_parameters())
        copy = self.trainer.model.net
        model = self.trainer.model
        for name, parameter in copy.named_parameters():  # weights may have been loaded since
            if name not in model.frozen:
                parameter.copy_(own[name])
        if self._generator is None:
            self._generator = torch.Generator(model.device).manual_seed(self._seed)
        elif self._generator.device.type != model.device.type:
            self._generator = torch.Generator(model.device).manual_seed(self._generator.initial_seed())
        none = torch.zeros(1, 1, dtype=model.dtype, device=model.device)  # of the likelihood targets will tell
        self._state = self.trainer.init(none, self._generator)._replace(noise={})
        self._rho.data = self._state.rho
        self._show()

    def _show(self) -> None:
        """Let the parameters be a draw in training mode, else the means."""
        assert self._state is not None
        if self.training:
            self._draw()
        else:
            self.weights.show(self._state.mean)
        self.fixed.show(self._state.fixed)

    @torch.no_grad()
    def _draw(self) -> None:
        assert self._state is not None
        assert self._generator is not None
        self._drawn, self._scale = self.trainer.draw(self._state, self._generator)
        self._under_kept = self._keep_rows(self._drawn)
        self.weights.show(self._drawn, is_home=False)

    def _keep_rows(self, vector: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Write the padding rows of embeddings, which the network keeps, to a vector; return what they were."""
        model, before = self.trainer.model, []
        named = {slot.name: slot for slot in model.bayesian}
        for name, row in model.kept_rows:
            if name in named:
                own = named[name].of(vector)[row]
                before.append((own, own.clone()))
                own.copy_(model.net.get_parameter(name)[row])
        return before

    # --- draws

    @contextmanager
    def sampled_params(self) -> Iterator[None]:
        """Let the network's parameters be a draw of q, for one forward and backward pass; then the means again.

        Several of them before `step` add their gradients, as torch does: divide each loss by their number.

        Yields:
            None.

        Raises:
            ParameterError: If gradients of elsewhere would be mixed with those of the draw.
        """
        if self._inside or self.training:  # the parameters are a draw already
            yield
            return
        self._begin()
        assert self._state is not None
        self._put_aside()
        self._draw()
        self._inside = True
        try:
            yield
        except BaseException:
            self.weights.take_gradients()  # part of a pass is no gradient of a draw
            self._rho.grad, self._stash, self._next_noise = None, None, None
            raise
        finally:
            self._inside = False
            self.weights.show(self._state.mean)
        self._collect()

    def train(self) -> None:
        """Let the parameters be a draw from now on, a new one after every step, until `eval`."""
        if not self.training:
            self._begin()
            self.training = True
            self._draw()

    def eval(self) -> None:
        """Let the parameters be the means again: before validation, saving or loading."""
        if self.training:
            self.training = False
            self._begin()
            self._show()

    def _put_aside(self) -> None:
        """Keep the gradients of earlier draws of this step out of the way of those of the next."""
        if not self.weights.have_gradients():
            self._pending, self._rho.grad, self._stash = False, None, None
            return
        if self._pending:
            self._rho.grad = self._in_log_scale_whole()
            self._pending = False
        self._stash = self.weights.take_gradients()

    def _collect(self) -> None:
        """Add the gradients of a draw to those of the draws before it."""
        own, stash = self.weights.have_gradients(), self._stash
        self._stash = None
        if stash is None:
            self._pending = own
            return
        if self._rho.grad is None:
            raise ParameterError("has gradients that are not of a draw", argument="net", fix=OUTSIDE)
        if own:
            self._rho.grad.add_(self._in_log_scale_whole())
        self.weights.add_gradients(stash)

    def _in_log_scale(self, in_mean: Sequence[Tensor], *, overwrites: bool = False) -> Iterator[Tensor]:
        """Yield the gradient in the log deviations, by block, at the draw whose gradients the parameters have.

        Args:
            in_mean: The gradient in the means, by block.
            overwrites: Whether it is written into the draw.
        """
        assert self._state is not None
        assert self._drawn is not None
        drawn = self.trainer.blocks.of(self._drawn)
        means, rooms = self.trainer.blocks.of(self._state.mean), drawn if overwrites else [None] * len(drawn)
        return map(in_log_scale, drawn, means, in_mean, rooms)

    @torch.no_grad()
    def _in_log_scale_whole(self) -> Tensor:
        """Return the gradient in the log deviations as one vector."""
        gathered = self.trainer.blocks.gathered(self.weights.gradients())
        return torch.cat([part.reshape(-1) for part in self._in_log_scale(gathered)])

    # --- the loop's calls

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients.

        Args:
            set_to_none: As in torch.
        """
        super().zero_grad(set_to_none)
        self._rho.grad, self._stash, self._pending = None, None, False
        if not set_to_none and not self.training:
            self.weights.take_gradients()  # zeros would pass for gradients of elsewhere

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        """Compute the mean negative log likelihood of a batch; what the likelihood learns follows the draws.

        Args:
            output: Output of the network, (rows, width).
            y: Targets of the rows, standardised as the network sees them; numbers that are not known are NaN.

        Returns:
            The loss, a scalar.

        Raises:
            ParameterError: If the likelihood was not given.
            DataError: If the targets do not fit the likelihood or the output.
        """
        likelihood = masked_for(self._known_likelihood(), y)
        state = self.posterior_state if self._state is None else self._state
        self._flat_target = y.dim() == 1
        target = likelihood.network_scale(likelihood.target(y))
        target = target.to(state.mean.dtype) if target.is_floating_point() else target
        output = output.to(state.mean.dtype)
        if not self._has_output:
            likelihood.warn_of_output(output, target)
            self._has_output = True
        if not state.noise:
            likelihood.require_width(output[:1].numel(), target)
            _warn_of_units(likelihood, target)
            state = self._state = state._replace(noise=likelihood.init(target))
        loss = -likelihood.log_prob(output, target, state.noise).mean()
        if (self._inside or self.training) and torch.is_grad_enabled():
            before = state.noise if self._next_noise is None else self._next_noise
            rate = self.trainer.descent.noise_rate(len(target), int(state.step) + 1)
            with torch.no_grad():
                self._next_noise = likelihood.observe(output.detach(), target, before, rate)
        return loss

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move q by the gradients at its draws, and refresh the scales of the priors every ``sweep_every`` steps.

        Args:
            closure: Computes the loss and its gradients, at a draw that is made for it.

        Returns:
            What the closure returns; None without one.

        Raises:
            ParameterError: If the parameters have gradients that are not of a draw, or the step is inside
                `sampled_params`.
        """
        if self._inside:
            problem = "was called inside sampled_params()"
            raise ParameterError(problem, argument="step", fix="call it after the block")
        loss = None
        if closure is not None:
            with self.sampled_params(), torch.enable_grad():
                loss = closure()
        if self._state is None or self.training:
            self._begin()
        if self.weights.have_gradients():
            self._move()
        return loss

    @torch.no_grad()
    def _move(self) -> None:
        state, trainer = self._state, self.trainer
        assert state is not None
        assert self._generator is not None
        cut, t = trainer.blocks, int(state.step) + 1
        in_mean, in_log = cut.gathered(self.weights.gradients()), self._rho.grad
        sweeps = t % trainer.settings.sweep_every == 0
        if self.training or self._pending:
            blocks: Iterable[Tensor] = self._in_log_scale(in_mean, overwrites=not sweeps)
        elif in_log is not None:
            blocks = cut.of(in_log)
        else:
            raise ParameterError("has gradients that are not of a draw", argument="net", fix=OUTSIDE)
        in_fixed = torch.cat([state.fixed.new_zeros(0), *(part.reshape(-1) for part in self.fixed.gradients())])
        gradients = Gradients(in_mean, blocks, in_fixed, state.mean.new_zeros(()))
        trainer.move(state, gradients, self._scale, self._sizes(t))
        noise = state.noise if self._next_noise is None else self._next_noise
        state = self._state = state._replace(step=state.step + 1, noise=noise)
        self._next_noise, self._rho.grad, self._pending, self._scale = None, None, False, None
        self._keep_rows(state.mean)
        for row, drawn in self._under_kept:
            row.copy_(drawn)  # scales are refreshed given draws of all weights
        if sweeps and trainer.can_sweep(state, gradients.nll):
            trainer.sweep(state, self._drawn, self._generator)
        if self.training:
            self._draw()

    def _sizes(self, t: int) -> Any:
        """Return the sizes of step t: those of the engine, with the learning rates of ``param_groups``."""
        trainer, (means, deviations) = self.trainer, self.param_groups
        sizes, descent = trainer.sizes(t, 1), trainer.descent
        falls = self.schedule == "cosine" or (
            self.schedule is None and self.length is not None and "initial_lr" not in means
        )
        share = sizes.lr / descent.largest_step if falls else descent.rising(t)
        is_fit = falls and means["lr"] == descent.largest_step  # in the same order of operations, to the bit
        lr = sizes.lr if is_fit else means["lr"] * share
        is_own = deviations["lr"] == trainer.rho_rate(means["lr"])
        return sizes._replace(lr=lr, lr_rho=trainer.rho_rate(lr) if is_own else deviations["lr"] * share)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse further groups: the state of q is that of one network.

        Args:
            param_group: The group.

        Raises:
            ParameterError: After the optimiser was made.
        """
        if len(self.param_groups) == 2:
            fix = "give the whole network when the optimiser is made, with priors by name"
            raise ParameterError("cannot be added", argument="param_group", fix=fix)
        super().add_param_group(param_group)

    # --- saving

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors and plain values, from which a run goes on to the bit.

        Returns:
            "state", the tensors by name, empty before the first use; and "param_groups", as in torch.
        """
        saved = super().state_dict()
        if self._state is None:
            return saved
        assert self._generator is not None
        tensors = {f"q/{name}": tensor.clone() for name, tensor in flatten(self._state).items()}
        tensors["generator"] = self._generator.get_state()
        if self.training and self._drawn is not None:
            tensors["drawn"] = self._drawn.clone()
        return {**saved, "state": tensors, "flat_target": self._flat_target}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state that `state_dict` returned; the network's parameters become its means.

        Args:
            state_dict: The state.

        Raises:
            CheckpointError: If it is of another network, prior or likelihood.
        """
        tensors = dict(state_dict["state"])
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        if not tensors:
            return
        self._begin()
        assert self._state is not None
        assert self._generator is not None
        saved = {name.removeprefix("q/"): tensor for name, tensor in tensors.items() if name.startswith("q/")}
        noise = {name: saved[name] for name in saved if name.startswith("noise/")}
        template = self._state._replace(noise={name.removeprefix("noise/"): noise[name] for name in noise})
        filled = unflatten(template, saved, any_shape=lambda name: name.startswith("noise/"))
        device = self.trainer.model.device
        own = {name: tensor.to(device, copy=True) for name, tensor in filled.noise.items()}
        self._state = unflatten(filled, {name: tensor.clone() for name, tensor in flatten(filled).items()})
        self._state = self._state._replace(noise=own)
        self._generator.set_state(tensors["generator"].cpu())
        self._rho.data, self._flat_target = self._state.rho, state_dict.get("flat_target", True)
        self._show()
        if self.training and "drawn" in tensors:
            self._drawn = tensors["drawn"].to(device, copy=True)
            self._scale = self.trainer.family.deviation(self._state, self.trainer.blocks)
            self.weights.show(self._drawn, is_home=False)
            self._generator.set_state(tensors["generator"].cpu())

    def posterior(self, net: nn.Module | None = None, *, units: Units | None = None) -> Posterior[Any]:
        """Make the posterior of the present state; later steps do not change it.

        Args:
            net: The network, where the optimiser was made of parameters alone.
            units: Units of inputs and targets where the loop standardised them; by default predictions are in the
                units of the loop.

        Returns:
            The posterior, as `fit` returns it, without history and health.

        Raises:
            ParameterError: If the likelihood, what it learns, or the network is not known.
        """
        self._known_likelihood()
        if units is not None:
            require_instance(units, Units, "units", "Units", "use r2d2net.network_inputs.Units")
        state, model, named = self.posterior_state, self.trainer.model, self.net
        needed = model.likelihood.init(torch.zeros(1, 1, dtype=model.dtype, device=model.device))
        if needed.keys() != state.noise.keys():
            problem = f"learns {', '.join(sorted(needed))} from the targets, of which none were seen"
            fix = "compute the loss by opt.nll(output, y)"
            raise ParameterError(problem, argument="likelihood", value=model.likelihood, fix=fix)
        if isinstance(named, BareNetwork):
            if net is None:
                problem = "is not known: the optimiser was made of parameters"
                raise ParameterError(problem, argument="net", fix="give posterior(net)")
            named = _unwrapped(net)
            model, state = moved_to(named, self.net, model, state)
        model = _with_buffers_of(named, model)
        trainer = self.settings.build(model, n=self.n, steps=STEPS if self.length is None else self.length)
        state = state._replace(buffers=model.buffers())
        return Posterior.of(
            trainer.finish(state),
            self.settings,
            n=self.n,
            steps=STEPS if self.length is None else self.length,
            seed=self._seed,
            units=units,
            flat_target=self._flat_target,
        )

    def _known_likelihood(self) -> Likelihood[Any]:
        if self.likelihood is None:
            fix = ("give ", Argument("likelihood", Shown("rn.likelihoods.Categorical()")), ", say, to the optimiser")
            raise ParameterError("is not known", argument="likelihood", fix=fix)
        return self.likelihood


def _warn_of_units(likelihood: Likelihood[Any], target: Tensor) -> None:
    """Warn of targets far from the units in which steps and the bounds of the noise are."""
    if likelihood.standardizes and len(target) > 1:
        scale = float(target[~target.isnan()].double().std())
        if not 1 / FAR < scale < FAR:
            fix = "standardise them, and give posterior(units=...) their centre and scale"
            warnings.warn(f"y has standard deviation {scale:.3g}: {fix}", FitWarning, stacklevel=3)


def _with_buffers_of(net: nn.Module, model: BayesianModel[Any]) -> BayesianModel[Any]:
    """Copy a model, with the buffers that the network in use has by now."""
    changed, now = model.with_likelihood(model.likelihood), dict(net.named_buffers())
    with torch.no_grad():
        for name, buffer in changed.net.named_buffers():
            buffer.copy_(now[name])
    return changed


def _unwrapped(net: nn.Module) -> nn.Module:
    """Return the network inside wrappers of torch, whose parameters are the same."""
    while True:
        inner = getattr(net, "_orig_mod", None)  # of torch.compile
        if isinstance(net, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            net = net.module
        elif isinstance(inner, nn.Module):
            net = inner
        else:
            return net
