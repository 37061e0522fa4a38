"""What all draws share is computed once for a block of rows, and bitwise as if it were computed for every draw."""

import copy

import pytest
import torch
from torch import nn

import r2d2net as rn
from architectures import ZOO
from r2d2net import forward_draws as module
from r2d2net.inference import Draws
from r2d2net.posterior import MEMORY


class Counting(nn.Module):
    """Two layers that count their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.calls = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4)), 0

    def forward(self, x):
        self.calls += 1
        return self.layers(x)


class Headed(nn.Module):
    """A frozen backbone, whatever `features` makes of it, and a head."""

    def __init__(self, backbone=Counting, features=lambda self, x: self.backbone(x)) -> None:
        super().__init__()
        self.backbone = backbone().requires_grad_(False)
        self.head, self.features = nn.Linear(4, 2), features

    def forward(self, x):
        return self.head(self.features(self, x))


def outputs(net, x, monkeypatch=None, rows=5, draws=4):
    """Outputs at some draws; with monkeypatch without any sharing."""
    torch.manual_seed(0)
    model = rn.BayesianModel(net)
    weights = torch.randn(draws, model.size, generator=torch.Generator().manual_seed(0))
    networks = Draws.sharing(weights, model.own_weights()[1], model.buffers(), {})
    if monkeypatch is not None:
        monkeypatch.setattr(module, "submodules_to_share", lambda model: [])
    with torch.no_grad():
        given = module.forward_draws(model, networks, x, rows=rows, memory=MEMORY, vectorize=False)
    return given, model.net


X = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))


def test_a_frozen_backbone_is_computed_once_for_a_block_of_rows(monkeypatch):
    net = Headed()
    shared, inner = outputs(net, X)
    assert inner.backbone.calls == 3  # blocks of 5, 5 and 2 rows
    assert "forward" not in vars(inner.backbone)
    again, inner = outputs(net, X, monkeypatch)
    assert inner.backbone.calls == 12
    assert torch.equal(shared, again)


def test_so_is_what_is_trained_without_a_prior():
    model = rn.BayesianModel(Headed().requires_grad_(True), deterministic=["backbone.*"])
    posterior = rn.fit(model, (X, X[:, :2]), epochs=2, verbose=False)
    before = model.net.backbone.calls
    posterior.predict(X, draws=20)
    assert model.net.backbone.calls == before + 1


class Dropping(Counting):
    """Draws random numbers."""

    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.5))


class InPlace(Counting):
    """Changes its input, by as much more in each call."""

    def forward(self, x):
        return super().forward(x.mul_(1.5))


class Hooked(Counting):
    """Has a hook, which could do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.layers[1].register_forward_hook(lambda *_: None)


def twice(net, x):
    return net.backbone(x) - net.backbone(2 * x)


def told_aside(net, x):
    """Tell the backbone a number that depends on the draw by a way past its arguments."""
    net.backbone.layers[0].told = net.head.weight.sum()
    return net.backbone(x) + 1


def told_a_number(net, x):
    net.backbone.layers[0].told = float(net.head.weight.sum())
    return net.backbone(x) + 1


class Told(Counting):
    def forward(self, x):
        return super().forward(x) * self.layers[0].told


def changed_later(net, x):
    return net.backbone(x).mul_(2)


def after_a_drawn_layer(net, x):
    return net.backbone(x * net.head.weight.sum())


CASES = {
    "twice": (Counting, twice, 2),
    "random": (Dropping, Headed().features, 4),
    "in place": (InPlace, lambda net, x: net.backbone(x.clone()), 4),
    "hooked": (Hooked, Headed().features, 4),
    "told aside": (Told, told_aside, 4),
    "told a number": (Told, told_a_number, 4),
    "output changed later": (Counting, changed_later, 4),
    "after a drawn layer": (Counting, after_a_drawn_layer, 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("inference", [False, True])
def test_nothing_is_shared_that_a_draw_or_a_call_changes(name, inference, monkeypatch):
    backbone, features, calls = CASES[name]
    net = Headed(backbone, features)
    with torch.inference_mode(inference):
        shared, inner = outputs(net, X, rows=12)
        if not inference:  # tensors of inference mode are copied, and may be changed
            assert inner.backbone.calls == calls
        alone, _ = outputs(net, X, monkeypatch, rows=12)
    assert torch.equal(shared, alone)
    assert not torch.equal(shared[0], shared[1])


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_every_architecture_with_its_first_part_frozen(case, monkeypatch):
    net = case.net()
    next(net.parameters()).requires_grad_(False)
    torch.testing.assert_close(outputs(net, case.x)[0], outputs(net, case.x, monkeypatch)[0], rtol=0, atol=0)


def test_vmap_shares_too():
    net = Headed()
    model = rn.BayesianModel(net)
    networks = Draws.sharing(torch.randn(4, model.size), model.own_weights()[1], model.buffers(), {})
    loop, at_once = (
        module.forward_draws(model, networks, X, rows=12, memory=MEMORY, vectorize=vectorize)
        for vectorize in (False, True)
    )
    torch.testing.assert_close(at_once, loop)


def test_what_is_kept_is_bounded():
    net = Headed()
    model = rn.BayesianModel(net)
    networks = Draws.sharing(torch.randn(4, model.size), model.own_weights()[1], model.buffers(), {})
    module.forward_draws(model, networks, X, rows=12, memory=12 * (3 + 4) - 1, vectorize=False)
    assert model.net.backbone.calls == 4
    module.forward_draws(model, networks, X, rows=12, memory=12 * (3 + 4), vectorize=False)
    assert model.net.backbone.calls == 5


def test_an_error_inside_leaves_the_network_as_it_was():
    net = copy.deepcopy(Headed())
    with pytest.raises(RuntimeError):
        outputs(net, X[:, :2])
    model = rn.BayesianModel(net)
    networks = Draws.sharing(torch.randn(2, model.size), model.own_weights()[1], {}, {})
    for _ in range(2):
        with pytest.raises(RuntimeError):
            module.forward_draws(model, networks, X[:, :2], rows=12, memory=MEMORY)
        assert not any("forward" in vars(part) for part in model.net.modules())
