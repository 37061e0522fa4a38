"""The No-U-Turn sampler (Hoffman and Gelman, 2014), one transition at a time, on any log density of a flat vector.

    position, state = transition(log_density, position, state, settings)

The trees are pyro's (`pyro.infer.mcmc.NUTS`: multinomial sampling, generalised U-turn criterion) and so is the warm-up:
the step size by dual averaging, a diagonal mass matrix from windows of doubling length, as in Stan. Pyro keeps what it
learns in Python objects for the length of one run. Here all of it is a NamedTuple of tensors: every transition puts it
into a fresh kernel and reads it back, so a run can stop after any transition, go through a file and go on to the bit.
The density at the position is worked out anew, too, so it may differ from one transition to the next, as it does when
other variables are drawn in between.

Random numbers come from torch's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DivergenceError, ParameterError, Shown, Value

LogDensity = Callable[[Tensor], Tensor]
SITE = "position"  # pyro's name for the one vector it moves
BUFFERS = 0.15, 0.4  # of a short warm-up, before and after the window of the mass matrix


class NutsSettings(NamedTuple):
    """How transitions are made.

    Args:
        warm_up: Transitions that adapt step size and mass; fewer than 20 leave the mass matrix at one.
        target_accept: Acceptance rate at which the step size aims: a larger one makes smaller steps.
        max_tree_depth: A transition takes at most 2^depth - 1 steps.
    """

    warm_up: int
    target_accept: float = 0.8
    max_tree_depth: int = 10


class NutsState(NamedTuple):
    """The adaptation of a chain; scalars are on the CPU."""

    transitions: Tensor  # so far, int64
    divergences: Tensor  # after the warm-up, int64
    acceptance: Tensor  # mean acceptance probability along the last trajectory, float64
    step_size: Tensor  # float64
    inverse_mass: Tensor  # diagonal, in the shape of the position
    window: Tensor  # of the warm-up, int64
    sums: Tensor  # Welford's running mean and sum of squares of the window's positions, (2, size)
    summed: Tensor  # how many they are, int64
    averaging: Tensor  # dual averaging: where it pulls to, mean of log step size, mean of its error; float64, (3,)
    averaged: Tensor  # steps of it, int64


def start(position: Tensor) -> NutsState:
    """Return the state before the first transition, which begins by searching for a step size."""
    whole = torch.zeros((), dtype=torch.int64)
    return NutsState(
        transitions=whole,
        divergences=whole,
        acceptance=torch.zeros((), dtype=torch.float64),
        step_size=torch.ones((), dtype=torch.float64),
        inverse_mass=torch.ones_like(position),
        window=whole,
        sums=position.new_zeros((2, position.numel())),
        summed=whole,
        averaging=torch.zeros(3, dtype=torch.float64),
        averaged=whole,
    )


def transition(
    log_density: LogDensity, position: Tensor, state: NutsState, settings: NutsSettings
) -> tuple[Tensor, NutsState]:
    """One transition, which leaves exp(log_density) invariant, and in the warm-up what is learnt from it.

    Args:
        log_density: Differentiable, of a vector; NaN counts as -inf. The dtype of its value and of the vector agree.
        position: The vector, (size,), at a finite log density.
        state: What the chain has learnt.
        settings: The same in all transitions of a chain.
    """
    pyro = require_pyro()
    first = int(state.transitions) == 0
    with torch.enable_grad(), pyro.validation_enabled(False):
        kernel = _kernel(log_density, position.detach().clone(), settings)
        if first:
            kernel.setup(settings.warm_up)
        else:
            _put(kernel, state, settings)
        energy = float(kernel._potential_energy_last)
        if not math.isfinite(energy):
            problem = ("the log density is ", Value(-energy), " where the chain stands")
            raise DivergenceError(problem, fix="check the data and the prior")
        new = kernel.sample(kernel.initial_params)[SITE].detach()
    return new, _read(kernel, state)


def require_pyro() -> Any:
    """Raise an error of one line unless Pyro, which only HMC needs, is installed."""
    try:
        import pyro
        import pyro.infer.mcmc
    except ImportError as error:
        fix = "pip install 'r2d2net[mcmc]'"
        raise ParameterError("needs pyro-ppl", argument="algorithm", value=Shown("HMC"), fix=fix) from error
    return pyro


# --- pyro's kernel: these are its names, of version 1.9


def _kernel(log_density: LogDensity, position: Tensor, settings: NutsSettings) -> Any:
    kernel = require_pyro().infer.mcmc.NUTS(
        potential_fn=lambda sites: -log_density(sites[SITE]),
        target_accept_prob=settings.target_accept,
        max_tree_depth=settings.max_tree_depth,
    )
    kernel.initial_params = {SITE: position}
    adapter, warm_up = kernel._adapter, settings.warm_up
    if warm_up < adapter._adapt_start_buffer + adapter._adapt_initial_window + adapter._adapt_end_buffer:
        # Pyro would leave a tenth to find the step size anew: dual averaging starts at ten times what seems right, and
        # its mean over a few transitions is too large for the chain to move at all.
        before, after = (int(share * warm_up) for share in BUFFERS)
        adapter._adapt_start_buffer, adapter._adapt_end_buffer = before, after
        adapter._adapt_initial_window = warm_up - before - after
    return kernel


def _put(kernel: Any, state: NutsState, settings: NutsSettings) -> None:
    """Restore the state of a chain into a fresh kernel."""
    from pyro.ops.integrator import potential_grad

    gradients, energy = potential_grad(kernel.potential_fn, kernel.initial_params)
    kernel._cache(kernel.initial_params, energy, gradients)
    kernel._warmup_steps, kernel._t = settings.warm_up, int(state.transitions)
    adapter = kernel._adapter
    adapter.configure(
        settings.warm_up,
        initial_step_size=state.step_size.item(),
        mass_matrix_shape={(SITE,): tuple(state.inverse_mass.shape)},
        find_reasonable_step_size_fn=kernel._find_reasonable_step_size,
        options={"dtype": state.inverse_mass.dtype, "device": state.inverse_mass.device},
    )
    adapter._current_window = int(state.window)
    mass = adapter.mass_matrix_adapter
    mass.inverse_mass_matrix = {(SITE,): state.inverse_mass}
    welford = mass._adapt_scheme[(SITE,)]
    welford._mean, welford._m2, welford.n_samples = state.sums[0].clone(), state.sums[1].clone(), int(state.summed)
    dual = adapter._step_size_adapt_scheme
    dual.prox_center, dual._x_avg, dual._g_avg = state.averaging.tolist()
    dual._t = int(state.averaged)


def _read(kernel: Any, before: NutsState) -> NutsState:
    """Return the state of a kernel that has made one transition."""
    adapter = kernel._adapter
    mass, dual = adapter.mass_matrix_adapter, adapter._step_size_adapt_scheme
    welford = mass._adapt_scheme[(SITE,)]
    # a fresh kernel's running mean over k transitions has seen only this one
    warming = kernel._t <= kernel._warmup_steps
    counted = kernel._t if warming else kernel._t - kernel._warmup_steps
    sums = before.sums.new_zeros(before.sums.shape)
    if welford.n_samples:
        sums[0], sums[1] = welford._mean, welford._m2
    return NutsState(
        transitions=torch.tensor(kernel._t),
        divergences=before.divergences + len(kernel._divergences),
        acceptance=torch.tensor(kernel._mean_accept_prob * counted, dtype=torch.float64),
        step_size=torch.tensor(adapter.step_size, dtype=torch.float64),
        inverse_mass=mass.inverse_mass_matrix[(SITE,)],
        window=torch.tensor(adapter._current_window),
        sums=sums,
        summed=torch.tensor(welford.n_samples),
        averaging=torch.tensor([dual.prox_center, dual._x_avg, dual._g_avg], dtype=torch.float64),
        averaged=torch.tensor(dual._t),
    )
