"""Many draws at once give what they give one after the other, within the memory they may have."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from architectures import ZOO, mlp
from r2d2net import forward_draws as module
from r2d2net.inference import Draws
from r2d2net.posterior import MEMORY

FUSED = {"lstm", "transformer encoder"}


def at_draws(net, x, vectorize, *, rows=5, memory=MEMORY, likelihood=None):
    model = rn.BayesianModel(net, likelihood=likelihood)
    draws = 0.3 * torch.randn(7, model.size, generator=torch.Generator().manual_seed(0))
    networks = Draws.sharing(draws, model.own_weights()[1], model.buffers(), {})
    with torch.no_grad():
        return module.forward_draws(model, networks, x, rows=rows, memory=memory, vectorize=vectorize)


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_loop_and_vmap_agree(case):
    """Up to the rounding of float32 products, which vmap orders otherwise."""
    net = case.net()
    if case.name in FUSED:
        with pytest.raises(rn.ParameterError, match=r"^vectorize=True: vmap has no rule for .*; leave it out$"):
            at_draws(net, case.x, True)
        return
    loop, at_once = (at_draws(net, case.x, vectorize) for vectorize in (False, True))
    assert loop.shape[:2] == (7, 12)
    torch.testing.assert_close(at_once, loop, rtol=1e-4, atol=1e-5)


class Largest(module._Elements):
    """The most elements of any one tensor; below vmap, so tensors have their dimension of draws."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.total = max([self.total, *(leaf.numel() for leaf in module.tree_leaves(result))])
        return result


def test_the_memory_cap_holds_under_vmap():
    """The hidden layer has 12 x 8 elements a draw: 7 draws at once without a cap, then 2, then 1."""
    net, x = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 1)), ZOO[0].x
    model = rn.BayesianModel(net)
    draws = torch.ones(7, model.size)
    with torch.no_grad(), module._Elements() as one:
        model.forward(draws[0], draws[0, :0], {}, x)
    for memory, together in ((MEMORY, 7), (2 * one.total, 2), (one.total // 2, 1)):
        with torch.no_grad(), Largest() as largest:
            networks = Draws.sharing(draws, draws[0, :0], {}, {})
            module.forward_draws(model, networks, x, rows=12, memory=memory, vectorize=True)
        assert largest.total == max(together * 12 * 8, 7 * 12)


class Branching(nn.Module):
    """Asks for a value, which vmap does not have."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        y = self.layer(x)
        return y if y.sum() > 0 else -y


def test_what_vmap_cannot_run_goes_through_the_loop(monkeypatch):
    net = Branching()
    with pytest.raises(rn.ParameterError, match=r"^vectorize=True: vmap cannot run the network \(.*\); leave it out$"):
        at_draws(net, ZOO[0].x, True)
    tried = []

    def failing(*arguments):
        tried.append(1)
        raise RuntimeError("vmap: It looks like you're calling .item() on a Tensor")

    monkeypatch.setattr(module, "_at_once", failing)
    monkeypatch.setattr(rn.BayesianModel, "device", type("Device", (), {"type": "cuda"})())
    model = rn.BayesianModel(net)
    networks = Draws.sharing(torch.ones(2, model.size), torch.zeros(0), {}, {})
    chosen = module.forward_draws(model, networks, ZOO[0].x, rows=5, memory=1)
    assert tried == [1]
    assert chosen.shape == (2, 12, 1)


@pytest.mark.parametrize("vectorize", [False, True])
def test_draws_may_differ_in_all_their_parts(vectorize):
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    model = rn.BayesianModel(net)
    g = torch.Generator().manual_seed(0)
    weights, fixed = torch.randn(3, model.size, generator=g), torch.randn(3, model.fixed_size, generator=g)
    buffers = {name: torch.stack([buffer + i for i in range(3)]) for name, buffer in model.buffers().items()}
    draws = Draws(weights, fixed, buffers, {})
    with torch.no_grad():
        found = module.forward_draws(model, draws, ZOO[0].x, rows=5, memory=MEMORY, vectorize=vectorize)
    for i in range(3):
        net.load_state_dict(model.state_dict(weights[i], fixed[i], {k: v[i] for k, v in buffers.items()}))
        torch.testing.assert_close(found[i], net.eval()(ZOO[0].x), rtol=1e-4, atol=1e-5)


def test_predict_takes_the_choice():
    posterior = rn.fit(rn.BayesianModel(mlp()), (ZOO[0].x, ZOO[0].y), epochs=1, verbose=False)
    loop, at_once = (posterior.predict(ZOO[0].x, 6, vectorize=choice).samples for choice in (False, True))
    torch.testing.assert_close(at_once, loop, rtol=1e-4, atol=1e-5)
    with pytest.raises(rn.ParameterError, match="vectorize='yes' is out of range: use True, False or None"):
        posterior.predict(ZOO[0].x, vectorize="yes")


class Wrapped(nn.Sequential):
    """A chain with a pass of its own."""

    def forward(self, x):
        return 2 * super().forward(x)


def _hooked() -> nn.Module:
    net = rn.nets.mlp(4, [6, 5], 2)
    net[1].register_forward_hook(lambda module, inputs, output: output + 1)
    return net


ACTIVATION = nn.Tanh()
CHAINS = {
    "perceptron": (lambda: rn.nets.mlp(4, [6, 5], 2), True),
    "linear": (lambda: rn.nets.mlp(4, [], 2), True),
    "without bias": (lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.Dropout(), nn.Linear(3, 1)), True),
    "one activation twice": (lambda: nn.Sequential(nn.Linear(4, 4), ACTIVATION, nn.Linear(4, 4), ACTIVATION), False),
    "a pass of its own": (lambda: Wrapped(nn.Linear(4, 2)), False),
    "hooks": (_hooked, False),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_layers_one_after_the_other_are_the_whole_network(kind):
    """To the bit, and only for networks that are nothing but their layers."""
    make, is_chain = CHAINS[kind]
    model = rn.BayesianModel(make())
    assert module._is_plain_chain(model) == is_chain
    g = torch.Generator().manual_seed(0)
    weights, x = torch.randn(3, model.size, generator=g), torch.randn(7, 4, generator=g)
    fixed = torch.randn(3, sum(slot.stop - slot.start for slot in model.fixed), generator=g)
    found = module.forward_draws(model, Draws(weights, fixed, {}, {}), x, rows=5, memory=1 << 20)
    whole = [
        torch.cat([model.forward(w, f, {}, part) for part in x.split(5)]) for w, f in zip(weights, fixed, strict=True)
    ]
    assert torch.equal(found, torch.stack(whole))
