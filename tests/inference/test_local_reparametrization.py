"""Noise on the activations has the law of noise on the weights, row by row; what it cannot serve draws weights."""

import pytest
import torch
from torch import nn

from architectures import ZOO, Encoder, Tied, conv
from r2d2net import BayesianModel
from r2d2net.inference.local_reparametrization import LocalReparametrization
from r2d2net.priors import R2D2, Gaussian

DRAWS = 20_000


def setting(net, **arguments):
    """A model with means and deviations of all sizes."""
    model = BayesianModel(net.double(), Gaussian(), **arguments)
    draw = torch.Generator().manual_seed(1)
    mean = torch.randn(model.size, generator=draw, dtype=torch.float64)
    scale = 0.1 + torch.rand(model.size, generator=draw, dtype=torch.float64)
    return model, mean, scale, model.own_weights()[1]


def cut(model, mean, scale, fixed):
    """Each vector as the tensors of its slots."""
    bayesian = ([slot.of(vector) for slot in model.bayesian] for vector in (mean, scale))
    return *bayesian, [slot.of(fixed) for slot in model.fixed]


def by_weights(model, mean, scale, fixed, x, seed):
    noise = torch.randn(DRAWS, model.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    draws = mean + scale * noise
    return torch.vmap(lambda w: model.forward(w, fixed, {}, x))(draws)


def by_activations(model, mean, scale, fixed, x, seed):
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(seed)
    many = x.repeat(DRAWS, *(1 for _ in x.shape[1:]))  # rows are independent: copies of x are draws
    return local.forward(*cut(model, mean, scale, fixed), {}, many, source).unflatten(0, (DRAWS, len(x)))


def assert_same_moments(a, b):
    """Means and variances of columns over draws: 5 standard errors, false alarm 6e-7 for each of at most 30."""
    error = ((a.var(0) + b.var(0)) / DRAWS).sqrt()
    assert bool(((a.mean(0) - b.mean(0)).abs() <= 5 * error + 1e-12).all())
    square_a, square_b = (a - a.mean(0)).square(), (b - b.mean(0)).square()
    error = ((square_a.var(0) + square_b.var(0)) / DRAWS).sqrt()
    assert bool(((square_a.mean(0) - square_b.mean(0)).abs() <= 5 * error + 1e-12).all())


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "no bias": (lambda: nn.Linear(4, 3, bias=False), (2, 4)),
    "conv": (lambda: nn.Conv2d(2, 1, 2, stride=2, padding=1, padding_mode="reflect"), (1, 2, 3, 3)),
    "groups": (lambda: nn.Conv1d(2, 2, 2, groups=2), (2, 2, 3)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("bias", [Gaussian(), None])
def test_outputs_of_a_layer_have_the_same_mean_and_variance(layer, bias):
    make, shape = LAYERS[layer]
    model, mean, scale, fixed = setting(make(), bias=bias)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pair = [law(model, mean, scale, fixed, x, seed=2).flatten(1) for law in (by_weights, by_activations)]
    assert_same_moments(*pair)


def test_the_expected_gradient_is_the_same():
    """Of a loss that is not linear, in means and deviations; rows at a time, where the two laws agree."""
    model, mean, scale, fixed = setting(nn.Linear(4, 2))
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = torch.randn(DRAWS, model.size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def loss(output):
        return torch.log(torch.cosh(output)).sum()

    g = torch.vmap(torch.func.grad(lambda w: loss(model.forward(w, fixed, {}, x))))(mean + scale * noise)
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(4)
    many = x.repeat(DRAWS, 1)
    m, s = mean.expand(DRAWS, -1), scale.expand(DRAWS, -1)
    # the gradient of one row's loss, draw by draw, through the closed form of the layer
    weight, bias = (model.bayesian[k] for k in (0, 1))

    def output(m, s, row, e):
        center = weight.of(m) @ row + bias.of(m)
        return center + (weight.of(s).square() @ row.square() + bias.of(s).square()).sqrt() * e

    e = torch.randn(DRAWS, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    one = torch.func.grad(lambda m, s, row, e: loss(output(m, s, row, e)), argnums=(0, 1))
    gm, gs = torch.vmap(one)(m, s, many, e)
    for a, b in ((g, gm), (g * noise, gs)):
        error = ((a.var(0) + b.var(0)) / DRAWS).sqrt()
        assert bool(((a.mean(0) - b.mean(0)).abs() <= 5 * error).all())  # 20 of them: false alarm 1e-5
    # and the layer itself gives the mean of that closed form's gradients
    mean.requires_grad_(), scale.requires_grad_()
    total = loss(local.forward(*cut(model, mean, scale, fixed), {}, many, source)) / DRAWS
    found = torch.autograd.grad(total, (mean, scale))
    for a, b in zip(found, (gm, gs), strict=True):
        error = (2 * b.var(0) / DRAWS).sqrt()
        assert bool(((a - b.mean(0)).abs() <= 5 * error).all())


def test_a_row_of_zeros_has_a_finite_gradient():
    model, mean, scale, fixed = setting(nn.Linear(4, 2, bias=False))
    mean.requires_grad_(), scale.requires_grad_()
    source = torch.Generator().manual_seed(0)
    x = torch.zeros(3, 4, dtype=torch.float64)
    output = LocalReparametrization(model).forward(*cut(model, mean, scale, fixed), {}, x, source)
    gradients = torch.autograd.grad(output.square().sum(), (mean, scale))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


def test_tied_weights_attention_and_recurrent_layers_draw_weights():
    assert LocalReparametrization(BayesianModel(Tied(), R2D2())).local == set()
    encoder = LocalReparametrization(BayesianModel(Encoder(), R2D2())).local
    assert encoder == {
        f"{name}.{kind}" for name in ("layer.linear1", "layer.linear2", "head") for kind in ("weight", "bias")
    }
    assert LocalReparametrization(BayesianModel(ZOO[4].net(), R2D2())).local == {"head.weight", "head.bias"}
    assert LocalReparametrization(BayesianModel(conv(), R2D2())).local == {"0.weight", "5.weight", "5.bias"}


def test_a_tied_network_has_the_same_law_in_both():
    model, mean, scale, fixed = setting(Tied())
    x = torch.tensor([[0, 3]])
    local = LocalReparametrization(model)
    source = torch.Generator().manual_seed(7)
    drawn = local.forward(*cut(model, mean, scale, fixed), {}, x, source)
    again = torch.Generator().manual_seed(7)
    weights = torch.cat(
        [torch.empty(s.stop - s.start, dtype=mean.dtype).normal_(generator=again) for s in model.bayesian]
    )
    torch.testing.assert_close(drawn, model.forward(mean + scale * weights, fixed, {}, x))


def test_the_model_keeps_its_own_network():
    net = conv()
    model = BayesianModel(net, R2D2())
    before = [type(module) for module in model.net.modules()]
    LocalReparametrization(model)
    assert [type(module) for module in model.net.modules()] == before
