"""A batched pass of several networks against passes one by one: outputs and gradients, for every kind of network."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

import r2d2net as rn
from r2d2net.inference.network_batch import NetworkBatch

DOUBLE = torch.float64


class Pair(nn.Module):
    """A network of two inputs."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 2), nn.Linear(4, 2)

    def forward(self, a, b):
        return torch.tanh(self.left(a)) + self.right(b)


class Residual(nn.Sequential):
    """A Sequential with a pass of its own."""

    def forward(self, x):
        return x + super().forward(x)


def shared_activation():
    activation = nn.Tanh()
    return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 4), activation, nn.Linear(4, 1))


def tied_layers():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(3, 1))


def hooked():
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    net[0].register_forward_hook(lambda module, given, output: 2 * output)
    return net


class Recurrent(nn.Module):
    """A fused layer, for which vmap has no rule."""

    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def frozen_first():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    net[0].requires_grad_(False)
    return net


NETWORKS = {
    "layers": (lambda: rn.nets.mlp(3, [5, 4], 2), (6, 3), "layers"),
    "linear": (lambda: nn.Linear(3, 2, bias=False), (6, 3), "layers"),
    "wide": (lambda: rn.nets.mlp(120, [5], 2), (6, 120), "layers"),
    "wide linear": (lambda: nn.Linear(120, 2, bias=False), (6, 120), "layers"),
    "nested": (
        lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.GELU()), nn.Dropout(0.5)),
        (5, 2, 3),
        "layers",
    ),
    "linear path": (lambda: rn.nets.mlp(3, [5], 2, linear=True), (6, 3), "layers"),
    "flattened path": (
        lambda: rn.nets.LinearPath(nn.Sequential(nn.Flatten(), nn.Linear(6, 1)), 6),
        (4, 2, 3),
        "layers",
    ),
    "frozen": (frozen_first, (6, 3), "layers"),
    "sequences": (lambda: nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (6, 5, 3), "layers"),
    "shared activation": (shared_activation, (6, 3), "vmap"),
    "tied layers": (tied_layers, (6, 3), "vmap"),
    "residual": (lambda: nn.Sequential(nn.Linear(3, 4), Residual(nn.Linear(4, 4), nn.ReLU())), (6, 3), "vmap"),
    "hooked": (hooked, (6, 3), "vmap"),
    "flattened outputs": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Flatten(), nn.Linear(4, 1)), (6, 3), "vmap"),
    "nested path": (lambda: nn.Sequential(nn.Linear(3, 4), rn.nets.mlp(4, [3], 1, linear=True)), (6, 3), "vmap"),
    "normalised": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)), (6, 3), "vmap"),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)),
        (3, 1, 4, 4),
        "vmap",
    ),
    "pair": (Pair, ((6, 3), (6, 4)), "vmap"),
    "recurrent": (Recurrent, (4, 5, 2), "one by one"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_and_gradients_are_those_of_single_networks(name):
    make, shape, way = NETWORKS[name]
    g = torch.Generator().manual_seed(0)
    model = rn.BayesianModel(make().to(DOUBLE), rn.priors.Gaussian())
    batch = NetworkBatch(model)
    assert way == ("layers" if batch.by_layers else "vmap" if batch.by_vmap else "one by one")
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    inputs = tuple(torch.randn(*each, generator=g, dtype=DOUBLE) for each in shapes)
    x = inputs if len(inputs) > 1 else inputs[0]
    weights = torch.randn(3, model.size, generator=g, dtype=DOUBLE).requires_grad_()
    fixed = torch.randn(model.fixed_size, generator=g, dtype=DOUBLE)
    outputs = batch(weights, fixed, model.buffers(), x)
    model.net.eval()
    single = torch.stack(
        [
            functional_call(model.net, {**model.parameters(w, fixed), **model.buffers()}, inputs).flatten(1)
            for w in weights
        ]
    )
    torch.testing.assert_close(outputs, single)
    direction = torch.randn(outputs.shape, generator=g, dtype=DOUBLE)
    ours, theirs = (
        torch.autograd.grad((v * direction).sum(), weights, retain_graph=True)[0] for v in (outputs, single)
    )
    torch.testing.assert_close(ours, theirs)
