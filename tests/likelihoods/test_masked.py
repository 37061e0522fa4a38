"""Targets some of which are missing: NaN cells count nothing, each output learns from those that it has."""

import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import r2d2net as rn
from r2d2net import likelihoods
from r2d2net.errors import FitWarning
from r2d2net.likelihoods import Gaussian
from r2d2net.likelihoods.masked import Masked

G = torch.Generator().manual_seed(0)
ROWS, OUTPUTS = 40, 3
REAL = torch.randn(ROWS, OUTPUTS, generator=G, dtype=torch.float64)
COUNTS = torch.poisson(torch.full((ROWS, OUTPUTS), 3.0), generator=G).double()
HOLES = torch.rand(ROWS, OUTPUTS, generator=G) < 0.4
HOLES[0] = True  # a row without any target
KINDS = {
    "gaussian": (Gaussian(), REAL),
    "known noise": (Gaussian(0.5), REAL),
    "student": (likelihoods.StudentT(), REAL),
    "log-normal": (likelihoods.LogNormal(), REAL.exp()),
    "heteroscedastic": (likelihoods.Heteroscedastic(), REAL),
    "poisson": (likelihoods.Poisson(), COUNTS),
    "centred": (likelihoods.Poisson(centered=True), COUNTS),
    "negative binomial": (likelihoods.NegativeBinomial(), COUNTS),
}
pytestmark = pytest.mark.filterwarnings("ignore:y is NaN")


def with_holes(y):
    return y.masked_fill(HOLES, torch.nan)


def made(kind):
    """A likelihood, targets with holes as the network sees them, outputs, and what is learnt for each output."""
    own, given = KINDS[kind]
    own = own.on_network_scale() if kind == "log-normal" else own
    y = Masked(own).target(with_holes(given.log() if kind == "log-normal" else given))
    output = torch.randn(ROWS, own.outputs(y), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    noise = Masked(own).init(y)
    return own, y, output, {name: value * torch.tensor([1.0, 1.5, 2.0]) for name, value in noise.items()}


def cell(output, noise, row, k):
    """What belongs to one cell: its part of the output, and of what is learnt."""
    return output[row : row + 1, k::OUTPUTS], {name: value[k : k + 1] for name, value in noise.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_log_prob_is_the_sum_over_the_cells_that_are_there(kind):
    own, y, output, noise = made(kind)
    found = Masked(own).log_prob(output.requires_grad_(), y, noise)
    for row in range(ROWS):
        known = [k for k in range(OUTPUTS) if not HOLES[row, k]]
        each = [cell(output, noise, row, k) for k in known]
        terms = [own.log_prob(f, y[row : row + 1, k : k + 1], n) for k, (f, n) in zip(known, each, strict=True)]
        assert float(found[row].detach()) == pytest.approx(sum(float(term.detach()) for term in terms), abs=1e-9)
    (gradient,) = torch.autograd.grad(found.sum(), output)
    assert torch.equal(gradient.reshape(ROWS, -1, OUTPUTS).movedim(1, 2).abs().sum(-1) > 0, ~HOLES)
    predicted = own.predict(output.detach()[None], {name: value[None] for name, value in noise.items()}, rn_unit())
    if kind == "poisson":
        assert torch.allclose(predicted.log_prob(y), found.detach())
    assert bool(torch.isfinite(predicted.log_prob(y)).all())


def rn_unit():
    return likelihoods.base.Unit(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learnt_follows_each_outputs_own_cells(kind):
    own, y, output, noise = made(kind)
    masked, full = Masked(own), y.nan_to_num(nan=2.0)
    assert torch.allclose(masked.log_prob(output, full, noise), own.log_prob(output, full, noise))
    observed = masked.observe(output, y, noise, 0.3)
    drawn = masked.gibbs(output[:, :OUTPUTS], y, noise, torch.Generator().manual_seed(2)) if noise else {}
    generator = torch.Generator().manual_seed(2)
    for k in range(OUTPUTS):
        known = ~HOLES[:, k]
        f, target = output[known, k::OUTPUTS], y[known, k : k + 1]
        mine = {name: value[k : k + 1] for name, value in noise.items()}
        for name, value in own.observe(f, target, mine, 0.3).items():
            assert torch.equal(observed[name][k : k + 1], value)
        if noise:
            for name, value in own.gibbs(f, target, mine, generator).items():
                assert torch.equal(drawn[name][k : k + 1], value)
    if kind in ("centred", "negative binomial"):
        mean = torch.stack([y[~HOLES[:, k], k].mean() for k in range(OUTPUTS)])
        assert torch.allclose(masked.init(y)["offset"], mean.log())


X = torch.randn(ROWS, 4, generator=G)


def fit(y, algorithm=None, likelihood=None, net=None, **options):
    torch.manual_seed(0)
    net = nn.Linear(4, OUTPUTS) if net is None else net
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), likelihood)
    return rn.fit(model, (X, y.float()), algorithm, **{"epochs": 4, "verbose": False, **options})


def test_means_are_those_of_ridge_regression_on_each_outputs_own_rows():
    """Known noise 0.5 and N(0, 1) weights: the optimum of a mean-field posterior has the exact means."""
    y = with_holes(REAL)
    posterior = fit(y, "cavi", Gaussian(0.5), standardize=False, epochs=600)
    mean = posterior.state_dict()
    design = torch.cat([X, torch.ones(ROWS, 1)], 1).double()
    for k in range(OUTPUTS):
        known = ~HOLES[:, k]
        z = design[known]
        exact = torch.linalg.solve(z.T @ z / 0.25 + torch.eye(5, dtype=torch.float64), z.T @ REAL[known, k] / 0.25)
        found = torch.cat([mean["weight"][k], mean["bias"][k : k + 1]])
        assert torch.allclose(found.double(), exact, atol=0.02)  # posterior deviations are about 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_every_likelihood_of_numbers_is_fitted_saved_and_scored(kind, tmp_path):
    likelihood, given = KINDS[kind]
    y = with_holes(given)
    outputs = 2 * OUTPUTS if kind == "heteroscedastic" else OUTPUTS
    posterior = fit(y, None, likelihood, rn.nets.mlp(4, [5], outputs), validation=0.3, epochs=6)
    assert posterior.model.likelihood == likelihood
    assert posterior.history[-1]["validation"] == posterior.history[-1]["validation"]
    predicted = posterior.predict(X, 5)
    assert bool(torch.isfinite(predicted.log_prob(y)).all())
    assert float(predicted.log_prob(y)[0]) == pytest.approx(0, abs=1e-6)  # the row without a target
    again = rn.load(posterior.save(tmp_path).parent, rn.nets.mlp(4, [5], outputs))
    assert torch.equal(again.predict(X, 5).samples, predicted.samples)


@pytest.mark.parametrize("algorithm", ["svgi", "cavi", "sgld", "hmc", "mclmc", "map", "deepensemble", "auto"])
def test_algorithms_take_them(algorithm):
    posterior = fit(with_holes(REAL), algorithm, epochs=2 if algorithm == "hmc" else 8)
    assert bool(torch.isfinite(posterior.predict(X, 3).samples).all())
    assert isinstance(posterior.model.likelihood, Gaussian)


def test_units_and_fits_of_streams_are_those_of_tensors():
    y = 100 + 7 * with_holes(REAL).float()
    mean = torch.stack([y[~HOLES[:, k], k].mean() for k in range(OUTPUTS)])
    tensors = fit(y)
    data = TensorDataset(X, y)
    streams = [rn.fit(tensors.model, stream, epochs=4, verbose=False) for stream in (data, DataLoader(data, 7))]
    for posterior in (tensors, *streams):
        assert torch.allclose(posterior.units.y.center, mean, rtol=1e-5)
        assert torch.allclose(posterior.units.y.scale, tensors.units.y.scale, rtol=1e-5)
        assert bool(torch.isfinite(posterior.predict(X, 3).samples).all())


def test_a_loop_of_ones_own_leaves_them_out():
    net, y = nn.Linear(4, OUTPUTS), with_holes(REAL).float()
    opt = rn.optim.SVGI(net, n=ROWS, likelihood=Gaussian())
    for _ in range(3):
        opt.zero_grad()
        with opt.sampled_params():
            opt.nll(net(X), y).backward()
        opt.step()
    assert bool(torch.isfinite(opt.posterior().predict(X, 2).samples).all())


def test_one_line_says_how_many_and_what_is_not_supported():
    y = with_holes(REAL)
    with pytest.warns(FitWarning, match=rf"^y is NaN in {int(HOLES.sum())} of 120 cells, which count nothing$"):
        fit(y)
    empty = y.clone()
    empty[:, 1] = torch.nan
    for data, options, message in (
        (empty, {}, r"^y\[:, 1\] holds nan alone: leave the output out$"),
        (y, {"weights": torch.ones(ROWS)}, "^weights is for targets that are all there, and y holds NaN"),
        (
            y,
            {"algorithm": "lineargibbs"},
            "^algorithm=LinearGibbs needs all targets, and y holds NaN: use SVGI or",
        ),
        (torch.where(HOLES, torch.inf, REAL), {}, r"^y holds inf at \(0, 0\): remove or fill"),
        ((y > 0).float() / y * y, {"likelihood": likelihoods.BernoulliLabels()}, r"^y holds nan at \(0, 0\): remove"),
    ):
        with pytest.raises(rn.R2D2NetError, match=message) as caught:
            fit(data, **options)
        assert "\n" not in str(caught.value)
    counts = rn.BayesianModel(nn.Conv1d(4, OUTPUTS, 1), likelihood=likelihoods.Poisson())
    stream = TensorDataset(X[:, :, None], with_holes(COUNTS).float())  # no pass over the rows tells what is missing
    with pytest.raises(rn.DataError, match=r"^y holds nan at \(0, 0\): remove"):
        rn.fit(counts, stream, epochs=1, verbose=False)


@pytest.mark.parametrize("form", [torch.Tensor.tolist, lambda y: pd.DataFrame(y.numpy())], ids=["lists", "pandas"])
def test_auto_sees_missing_targets_in_every_form(form):
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(2))
    model = rn.BayesianModel(nn.Linear(3, OUTPUTS))
    posterior = rn.fit(model, (x, form(with_holes(REAL).float())), "auto", epochs=10, verbose=False)
    assert posterior.settings["chosen"].startswith("MCLMC")


def test_a_posterior_as_prior_needs_all_targets():
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(2))
    model = rn.BayesianModel(nn.Linear(3, OUTPUTS))
    posterior = rn.fit(model, (x, REAL.float()), epochs=2, verbose=False)
    with pytest.raises(rn.errors.DataError, match=r"^y holds NaN, and a posterior as prior needs all targets: "):
        rn.fit(model, (x, with_holes(REAL).float()), prior=posterior, epochs=2, verbose=False)
