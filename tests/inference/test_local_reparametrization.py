"""Noise on the activations has the law of noise on the weights, row by row; what it cannot serve draws weights."""

import copy

import pytest
import torch
from torch import nn

from architectures import ZOO, Encoder, Tied, conv
from r2d2net import BayesianModel
from r2d2net.errors import ParameterError
from r2d2net.inference import CAVI, SVGI
from r2d2net.inference.local_reparametrization import LocalReparametrization, is_cheap_for
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


# --- layers that a pass uses other than by one call


class Difference(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 3)

    def forward(self, x):
        return self.l(x) - self.l(x)


class Twins(Difference):
    def forward(self, x):
        return self.l(x[:, 0]) + self.l(x[:, 1])


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.once, self.twice = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return torch.cat([self.once(x), self.twice(x), self.twice(2 * x)], 1)


class Cell(nn.Module):
    """A recurrent cell by hand: it is called as often as its input is long."""

    def __init__(self):
        super().__init__()
        self.cell, self.norm, self.drop, self.head = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)

    def forward(self, x):
        h = x.new_zeros(len(x), 4)
        for column in x.T:
            h = self.drop(self.norm(torch.tanh(self.cell(torch.cat([column[:, None], h], 1)))))
        return self.head(h)


class Autoencoder(nn.Module):
    """Its weight is used a second time, and the layer is called once."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 2)

    def forward(self, x):
        return self.encoder(x) @ self.encoder.weight


class Undecided(Difference):
    """How often the layer is called depends on its weights."""

    def forward(self, x):
        h = self.l(x)
        return h + self.l(x) if h[0, 0] > 0 else h


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_calls_of_a_layer_share_its_weights():
    model, *vectors = setting(Difference())
    assert is_cheap_for(model)
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(0)
    for rows in (5, 2):
        assert torch.equal(local.forward(*cut(model, *vectors), {}, normal(rows, 4), source), torch.zeros(rows, 3))


def test_the_sum_of_two_calls_has_its_exact_mean_and_variance():
    """It is normal: 5 standard errors, false alarm 6e-7 for each of 6."""
    model, mean, scale, fixed = setting(Twins())
    x, passes = normal(1, 2, 4), 5000
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(3)
    arguments = cut(model, mean, scale, fixed)
    draws = torch.cat([local.forward(*arguments, {}, x, source) for _ in range(passes)])
    (weight, bias), (weight_scale, bias_scale), _ = arguments
    total = x[0].sum(0)
    variance = weight_scale.square() @ total.square() + 4 * bias_scale.square()
    error = (variance / passes).sqrt()
    assert bool(((draws.mean(0) - weight @ total - 2 * bias).abs() <= 5 * error).all())
    assert bool(((draws.var(0) / variance - 1).abs() <= 5 * (2 / passes) ** 0.5).all())


def test_layers_called_once_keep_their_noise_on_activations():
    model, *vectors = setting(Mixed())
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(0)
    row = normal(1, 4)
    once, *twice = local.forward(*cut(model, *vectors), {}, row.expand(3, 4), source).split(2, 1)
    assert local.local == {"once.weight", "once.bias"}
    assert len(once.unique(dim=0)) == 3  # rows have noise of their own
    assert all(bool((part == part[0]).all()) for part in twice)
    local.forward(*cut(model, *vectors), {}, row, source)
    assert local.local == {"once.weight", "once.bias"}


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_a_pass_of_other_networks_moves_no_layer(case):
    model = BayesianModel(case.net(), Gaussian(), case.likelihood)
    mean, fixed = model.own_weights()
    local = LocalReparametrization(model)
    before = local.local
    vectors = cut(model, mean, torch.ones_like(mean), fixed)
    local.forward(*vectors, model.buffers(), case.x, torch.Generator().manual_seed(0))
    assert local.local == before


def test_a_weight_that_is_read_past_its_layer_is_drawn():
    model, mean, scale, fixed = setting(Autoencoder())
    x, again = normal(3, 4), torch.Generator().manual_seed(7)
    output = LocalReparametrization(model).forward(
        *cut(model, mean, scale, fixed), {}, x, torch.Generator().manual_seed(7)
    )
    weights = torch.cat(
        [torch.empty(s.stop - s.start, dtype=mean.dtype).normal_(generator=again) for s in model.bayesian]
    )
    torch.testing.assert_close(output, model.forward(mean + scale * weights, fixed, {}, x))


def test_earlier_passes_leave_no_trace():
    """The number of calls changes from batch to batch; each pass is that of an engine that has seen nothing."""
    model, *vectors = setting(Cell())
    used, source = LocalReparametrization(model), torch.Generator().manual_seed(1)
    buffers = model.buffers()
    for length in (3, 3, 1, 1, 2, 1, 4):
        x, twins = normal(6, length), []
        before, outer = source.get_state(), torch.get_rng_state()
        for local in (LocalReparametrization(model), used):
            own = {name: tensor.clone() for name, tensor in buffers.items()}
            source.set_state(before)
            torch.set_rng_state(outer)
            output = local.forward(*cut(model, *vectors), own, x, source)
            twins.append([output, *own.values(), source.get_state(), torch.get_rng_state()])
        assert all(map(torch.equal, *twins))
        assert ("cell.weight" in used.local) == (length == 1)
        assert own["norm.num_batches_tracked"] == buffers["norm.num_batches_tracked"] + length
        buffers = own


@pytest.mark.parametrize("method", [SVGI, CAVI])
def test_a_run_resumes_to_the_bit_wherever_it_stopped(method):
    model = BayesianModel(Cell().double(), R2D2())
    batches = [(normal(6, length), normal(6, 1)) for length in (1, 2, 3, 1, 1, 2)]

    def engine():
        return method(sweep_every=2).build(model, n=6, steps=len(batches))

    running, source = engine(), torch.Generator().manual_seed(0)
    assert running.local is not None
    states, last = [(running.init(batches[0][1], source), source.get_state())], None
    for k, batch in enumerate(batches):
        torch.manual_seed(k)
        last, _ = running.step(copy.deepcopy(states[-1][0]), batch, source)
        states.append((last, source.get_state()))
    for start, (state, at) in enumerate(states[:-1]):
        running, state = engine(), copy.deepcopy(state)
        source.set_state(at)
        for k, batch in enumerate(batches[start:], start):
            torch.manual_seed(k)
            state, _ = running.step(state, batch, source)
        assert torch.equal(state.mean, last.mean)
        assert torch.equal(state.rho, last.rho)
        assert all(map(torch.equal, state.buffers.values(), last.buffers.values()))


def test_calls_that_depend_on_the_weights_are_refused_in_one_line():
    """About a quarter of the passes is found to differ from its repetition: that none of 40 is has a chance of 1e-5."""
    model, mean, scale, fixed = setting(Undecided())
    local, source = LocalReparametrization(model), torch.Generator().manual_seed(0)
    arguments = cut(model, 0 * mean, scale, fixed)

    def train():
        for _ in range(40):
            local.forward(*arguments, {}, normal(1, 4), source)

    with pytest.raises(
        ParameterError, match=r"net uses 'l.bias' once or more often .* use estimator='weights'"
    ) as error:
        train()
    assert "\n" not in str(error.value)


def test_a_noisy_layer_is_still_its_own_kind_and_keeps_its_hooks():
    net = nn.Linear(4, 2)
    net.register_forward_hook(lambda layer, _, output: output.new_full(output.shape, layer.in_features))
    model, *vectors = setting(net)
    local = LocalReparametrization(model)
    output = local.forward(*cut(model, *vectors), {}, normal(3, 4), torch.Generator().manual_seed(0))
    assert bool((output == 4).all())
    assert isinstance(local.net, nn.Linear)
    assert local.local == {"weight", "bias"}
