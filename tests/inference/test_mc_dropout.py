"""Monte Carlo dropout: masks on weights, by which a row has the law of masks on its inputs, and what they cost."""

import math

import pytest
import torch
from torch import nn

import r2d2net as rn
from architectures import ZOO
from r2d2net.inference import MCDropout

RATE, DRAWS = 0.3, 20_000
GAUSSIAN = rn.priors.Gaussian(1.0)


def setting(net, inputs=True, rate=RATE, **arguments):
    model = rn.BayesianModel(net.double(), GAUSSIAN, **arguments)
    running = MCDropout(rate=rate, inputs=inputs).build(model, n=20, steps=100)
    g = torch.Generator().manual_seed(0)
    state = running.init(torch.zeros(1, 1), g)
    state.mean.normal_(generator=g)
    return running, state, g


def assert_mean(sample, expected):
    """Means over the first dimension within 5 standard errors: false alarm 6e-7 each."""
    error = sample.std(0) / math.sqrt(len(sample))
    assert bool(((sample.mean(0) - expected).abs() <= 5 * error + 1e-12).all())


def test_a_draw_is_the_mean_times_a_mask_of_the_inputs():
    """Weights are 0 or M / (1 - rate), columns whole and independent: mean M, variance M^2 rate / (1 - rate)."""
    running, state, g = setting(nn.Linear(4, 3))
    weight, bias = running.model.bayesian
    drawn = running.source(state).sample(DRAWS, g)
    factor = weight.of(drawn) / weight.of(state.mean)
    assert bool((((factor - 1 / (1 - RATE)).abs() < 1e-12) | (factor == 0)).all())
    assert torch.equal(factor == 0, (factor[:, :1] == 0).expand_as(factor))
    assert_mean(drawn, state.mean)
    assert_mean((weight.of(drawn) - weight.of(state.mean)).square(), weight.of(state.mean).square() * RATE / (1 - RATE))
    z = factor[:, 0]
    assert_mean(((z[:, :, None] - 1) * (z[:, None, :] - 1)).flatten(1), torch.eye(4).flatten() * RATE / (1 - RATE))
    assert torch.equal(bias.of(drawn), bias.of(state.mean).expand(DRAWS, 3))


class Twice(nn.Module):
    """One layer used twice, over positions: a row has one W."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (4,)),
    "positions": (lambda: nn.Linear(3, 2), (3, 3)),
    "conv": (lambda: nn.Conv2d(2, 2, 2, padding=1, padding_mode="reflect"), (2, 3, 3)),
    "groups": (lambda: nn.Conv1d(4, 4, 2, groups=2), (4, 3)),
    "two layers": (lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)), (4,)),
    "twice": (Twice, (2, 3)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_a_row_has_the_same_law_under_masks_of_weights_and_of_its_inputs(kind):
    """Means and all second moments of a row's outputs, positions included: 5 standard errors, at most 200 of them."""
    make, shape = LAYERS[kind]
    running, state, g = setting(make())
    model = running.model
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).double()[None]
    weights = running.source(state).sample(DRAWS, g)
    by_weights = torch.vmap(lambda w: model.forward(w, state.fixed, {}, x))(weights).flatten(1)
    rows = x.repeat(DRAWS, *(1 for _ in shape))
    by_rows = running.forward(running.model.parameters(state.mean, state.fixed), {}, rows, g).flatten(1)
    for moment in (lambda v: v, lambda v: (v[:, :, None] * v[:, None, :]).flatten(1)):
        a, b = moment(by_weights), moment(by_rows)
        error = ((a.var(0) + b.var(0)) / DRAWS).sqrt()
        assert bool(((a.mean(0) - b.mean(0)).abs() <= 5 * error + 1e-12).all())
    plain = model.forward(state.mean, state.fixed, {}, x).flatten()
    assert bool((by_rows.var(0) > 1e-3 * plain.square()).all())  # there was something to compare


def test_rows_and_passes_are_dropped_independently():
    """Correlations of equal rows, side by side and from pass to pass: 5 standard errors, of 3 (2e-6)."""
    running, state, g = setting(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    x = torch.randn(1, 4, generator=g).double().repeat(2 * DRAWS, 1)
    first, second = (
        running.forward(running.model.parameters(state.mean, state.fixed), {}, x, g).view(DRAWS, 2) for _ in range(2)
    )
    found = torch.corrcoef(torch.stack([first[:, 0], first[:, 1], second[:, 0]]))
    assert bool(((found - torch.eye(3)).abs() < 5 / math.sqrt(DRAWS)).all())


class Deconvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ConvTranspose1d(4, 6, 2, groups=2)

    def forward(self, x):
        return self.layer(x).flatten(1)


@pytest.mark.parametrize("make", [Deconvolution, lambda: ZOO[4].net()], ids=["transposed", "recurrent"])
def test_other_layers_have_one_draw_of_weights_a_batch(make):
    running, state, g = setting(make(), deterministic=() if make is Deconvolution else ["head.*"])
    x = torch.randn(5, 4, 3, generator=g).double()
    for _ in range(10):
        before = g.get_state()
        output = running.forward(running.model.parameters(state.mean, state.fixed), {}, x, g)
        g.set_state(before)
        torch.testing.assert_close(
            output, running.model.forward(running.source(state).sample(1, g)[0], state.fixed, {}, x)
        )
        if make is Deconvolution:  # and that is a mask of the inputs
            g.set_state(before)
            mask = torch.empty(1, 4, 1).double().bernoulli_(1 - RATE, generator=g) / (1 - RATE)
            torch.testing.assert_close(output, running.model.forward(state.mean, state.fixed, {}, x * mask))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (0, {"2.weight"}),
        (1, {"5.weight"}),
        (2, {"body.3.weight", "head.weight"}),
        (3, {"layer.self_attn.out_proj.weight", "layer.linear1.weight", "layer.linear2.weight", "head.weight"}),
        (4, {"lstm.weight_hh_l0", "head.weight"}),
        (7, {"second.weight"}),
    ],
)
def test_the_first_layer_keeps_its_inputs(case, expected):
    model = rn.BayesianModel(ZOO[case].net(), GAUSSIAN, bias=GAUSSIAN, norm=GAUSSIAN)
    dropped = MCDropout().build(model, n=1, steps=1).dropped
    assert {weight.slot.name for weight in dropped} == expected
    more = {weight.slot.name for weight in MCDropout(inputs=True).build(model, n=1, steps=1).dropped} - expected
    assert len(more) == 1


def test_embeddings_and_free_parameters_are_not_dropped():
    net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 1))
    dropped = MCDropout().build(rn.BayesianModel(net, GAUSSIAN), n=1, steps=1).dropped
    assert [weight.slot.name for weight in dropped] == ["2.weight"]
    vit = rn.BayesianModel(rn.nets.ViT(1, 2, 8, width=8, depth=1, heads=2), GAUSSIAN)
    names = [weight.slot.name for weight in MCDropout().build(vit, n=1, steps=1).dropped]
    assert "position" not in names
    assert "patches.weight" not in names
    assert len(names) == 5


def test_training_finds_the_closed_form_of_linear_regression():
    """E_z |y - X diag(z) m|^2 = |y - X m|^2 + r / (1 - r) sum_i m_i^2 |x_i|^2, and the prior's m^2 / (1 - r).

    40 copies of the rows, each with its masks, leave little of Adam's noise: over four seeds at most 0.4%. A penalty of
    m^2 is 15% off, one of (1 - r) m^2 26%.
    """
    g = torch.Generator().manual_seed(0)
    rate, scale, steps = 0.4, 0.1, 600
    x = torch.randn(50, 3, generator=g).double()
    y = x @ torch.randn(3, 1, generator=g).double() + 0.5 * torch.randn(50, 1, generator=g).double()
    square = x.T @ x / 0.25
    penalty = rate / (1 - rate) * square.diagonal() + 1 / (scale**2 * (1 - rate))
    exact = torch.linalg.solve(square + torch.diag(penalty), x.T @ y / 0.25).squeeze()
    net = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    model = rn.BayesianModel(net, rn.priors.Gaussian(scale), rn.likelihoods.Gaussian(noise=0.5))
    running = MCDropout(rate=rate, inputs=True, lr=0.1).build(model, n=50, steps=steps)
    state, batch = running.init(y, g), (x.repeat(40, 1), y.repeat(40, 1))
    for _ in range(steps):
        state, _ = running.step(state, batch, g)
    assert float((state.mean - exact).norm() / exact.norm()) < 0.02


def test_priors_with_scales_see_the_second_moment_of_dropped_weights():
    prior = rn.priors.GeneralizedDoublePareto()
    model = rn.BayesianModel(nn.Linear(3, 2, dtype=torch.float64), prior)
    running = MCDropout(inputs=True, rate=RATE).build(model, n=10, steps=10)
    state = running.init(torch.zeros(1, 1), torch.Generator().manual_seed(0))
    slot = model.bayesian[0]
    factors = prior.cavi(slot.of(state.mean).square() / (1 - RATE), state.scales["weight"])
    torch.testing.assert_close(slot.of(state.precision), factors.precision / (1 - RATE))


def test_a_vanishing_rate_is_map_to_the_bit():
    case = ZOO[1]
    model = rn.BayesianModel(case.net(), GAUSSIAN, case.likelihood)
    settings = {"epochs": 4, "batch_size": 4, "verbose": False}
    pair = [rn.fit(model, (case.x, case.y), method, **settings) for method in (MCDropout(rate=1e-15), "map")]
    assert torch.equal(pair[0].state.mean, pair[1].state.mean)
    assert torch.equal(pair[0].state.buffers["1.running_mean"], pair[1].state.buffers["1.running_mean"])
    torch.testing.assert_close(pair[0].predict(case.x).probs, pair[1].predict(case.x).probs)


def test_predictions_are_a_mixture_over_masks():
    """With one hidden unit a fifth of the networks have only a bias; the mean network is none of them."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    x = torch.linspace(0.5, 1.5, 64)[:, None]
    model = rn.BayesianModel(net, GAUSSIAN, rn.likelihoods.Gaussian(noise=0.1))
    posterior = rn.fit(model, (x, x[:, 0]), "mcdropout", epochs=20, verbose=False)
    outputs = posterior.outputs(x, draws=2000, seed=0)
    states = list(posterior.state_dicts(2000, seed=0))
    zero = torch.tensor([float(state["2.weight"].abs().sum()) == 0 for state in states])
    assert abs(float(zero.double().mean()) - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 2000)
    assert float(outputs[zero].std(1).max()) < 1e-6
    assert float(posterior.outputs(x, draws="mean").std()) > 0.05


@pytest.mark.parametrize("rate", [0, 1, -0.1, "0.2", None])
def test_rates_are_probabilities(rate):
    with pytest.raises(rn.errors.ParameterError, match=r"^rate=.* is out of range: use a number between 0 and 1"):
        MCDropout(rate=rate)


def test_what_cannot_be_dropped_is_refused():
    data = torch.zeros(4, 3), torch.zeros(4)
    with pytest.raises(
        rn.errors.ParameterError, match=r"^algorithm=MCDropout has nothing to drop but .*: use inputs=True$"
    ):
        rn.fit(rn.BayesianModel(nn.Linear(3, 1), GAUSSIAN), data, "mcdropout")
    tied = rn.BayesianModel(ZOO[5].net(), GAUSSIAN, rn.likelihoods.Categorical())
    with pytest.raises(
        rn.errors.ParameterError, match=r"^algorithm=MCDropout has nothing to drop: give weights of a Linear"
    ):
        rn.fit(tied, (ZOO[5].x, ZOO[5].y), "mcdropout")
    with pytest.raises(rn.errors.ParameterError, match=r"^algorithm=MCDropout does not suit the prior R2D2"):
        rn.fit(rn.BayesianModel(ZOO[0].net(), rn.priors.R2D2()), data, "mcdropout")
