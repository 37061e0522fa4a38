"""Other libraries' plain Gaussian mean field on the same network: a training step, and a forward at a fresh draw.

Each is used as its own documentation shows: forward, loss plus KL over the number of rows, backward, Adam. None of
their code is here. They are no dependencies: for `step_cost.py --peers` install them into a folder of their own,

    pip install --no-deps --target out/peers -r benchmarks/peers.txt

and name it in PYTHONPATH.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

Step = Callable[[], object]
LR = 1e-3
ENSEMBLE = 8  # networks


class Contestant(NamedTuple):
    """The timed functions: a step on the batch, and the outputs at one draw of the weights."""

    step: Step
    forward: Callable[[Tensor], Tensor]


def by_loss(net: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """Train the parameters of a network by Adam."""
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.item()

    return step


def replaced(net: nn.Module, make: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """Copy a network and replace its Linear and Conv2d layers."""
    net = copy.deepcopy(net)
    for name, module in list(net.named_modules()):
        other = make(module)
        if other is not None:
            parent, _, child = name.rpartition(".")
            setattr(net.get_submodule(parent), child, other)
    return net


def bayesian_torch(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss

    net = copy.deepcopy(net)
    settings = {"prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0}
    dnn_to_bnn(net, {**settings, "type": "Reparameterization", "moped_enable": False})
    return Contestant(by_loss(net, lambda: cross_entropy(net(x), y) + get_kl_loss(net) / n), net)


def torchbnn(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    import torchbnn as bnn

    def make(module: nn.Module) -> nn.Module | None:
        if type(module) is nn.Linear:
            return bnn.BayesLinear(0, 0.1, module.in_features, module.out_features)
        if type(module) is nn.Conv2d:
            sizes = module.in_channels, module.out_channels, module.kernel_size
            return bnn.BayesConv2d(0, 0.1, *sizes, stride=module.stride, padding=module.padding)
        return None

    net = replaced(net, make)
    kl = bnn.BKLLoss(reduction="sum", last_layer_only=False)
    return Contestant(by_loss(net, lambda: cross_entropy(net(x), y) + kl(net).sum() / n), net)


def blitz(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    from blitz.losses import kl_divergence_from_nn
    from blitz.modules import BayesianConv2d, BayesianLinear

    def make(module: nn.Module) -> nn.Module | None:
        if type(module) is nn.Linear:
            return BayesianLinear(module.in_features, module.out_features)
        if type(module) is nn.Conv2d:
            sizes = module.in_channels, module.out_channels, module.kernel_size
            return BayesianConv2d(*sizes, stride=module.stride, padding=module.padding)
        return None

    net = replaced(net, make)
    return Contestant(by_loss(net, lambda: cross_entropy(net(x), y) + kl_divergence_from_nn(net) / n), net)


def posteriors(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of tensordict, at import
        import posteriors as library
        import torchopt

    net = copy.deepcopy(net)

    def log_posterior(parameters: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        output = functional_call(net, parameters, (batch[0],))
        value = -cross_entropy(output, batch[1]) + library.diag_normal_log_prob(parameters, normalize=False) / n
        return value, output

    transform = library.vi.diag.build(log_posterior, torchopt.adam(lr=LR), temperature=1 / n, init_log_sds=-3.0)
    state = transform.init({name: p.detach().clone() for name, p in net.named_parameters()})

    def step() -> float:
        nonlocal state
        state, _ = transform.update(state, (x, y), inplace=False)
        return state.nelbo.item()

    def forward(rows: Tensor) -> Tensor:
        return functional_call(net, library.vi.diag.sample(state), (rows,))

    return Contestant(step, forward)


def ivon(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    import ivon as library

    net = copy.deepcopy(net)
    optimizer = library.IVON(net.parameters(), lr=0.1, ess=n)

    def step() -> float:
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            value = cross_entropy(net(x), y)
            value.backward()
        optimizer.step()
        return value.item()

    def forward(rows: Tensor) -> Tensor:
        with optimizer.sampled_params():
            return net(rows)

    return Contestant(step, forward)


def deep_ensemble(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    """Several plain networks: a step of each, and the outputs of one after the other."""
    nets = [copy.deepcopy(net) for _ in range(ENSEMBLE)]
    steps = [by_loss(one, lambda one=one: cross_entropy(one(x), y)) for one in nets]  # type: ignore[misc]
    turn = itertools.cycle(nets)
    return Contestant(lambda: [step() for step in steps], lambda rows: next(turn)(rows))


def pyro(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Contestant:
    import pyro as library
    from pyro import distributions, poutine
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal
    from pyro.nn.module import to_pyro_module_
    from pyro.optim import Adam  # type: ignore[attr-defined]

    library.clear_param_store()
    net = copy.deepcopy(net)
    to_pyro_module_(net)
    for module in list(net.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            unit = distributions.Normal(torch.zeros_like(parameter), torch.ones_like(parameter))
            setattr(module, name, library.nn.PyroSample(unit.to_event(parameter.dim())))

    def model(rows: Tensor, labels: Tensor | None = None) -> Tensor:
        output = net(rows)
        if labels is not None:
            with library.plate("rows", size=n, subsample_size=len(rows)):
                library.sample("y", distributions.Categorical(logits=output), obs=labels)
        return output

    guide = AutoNormal(model, init_scale=0.05)
    inference = SVI(model, guide, Adam({"lr": LR}), Trace_ELBO())

    def forward(rows: Tensor) -> Tensor:
        drawn = poutine.trace(guide).get_trace(rows)
        return poutine.replay(model, trace=drawn)(rows)

    return Contestant(lambda: inference.step(x, y), forward)


PEERS: dict[str, Callable[[nn.Module, Tensor, Tensor, int], Contestant]] = {
    "bayesian-torch": bayesian_torch,
    "torchbnn": torchbnn,
    "blitz": blitz,
    "posteriors": posteriors,
    "pyro": pyro,
    "ivon": ivon,
}
