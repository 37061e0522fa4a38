"""What algorithm="auto" stands for, and that the choice is stored, resumed and the same as by name."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import r2d2net as rn
from r2d2net.inference import HMC, MCLMC, SVGI, LinearFirst, LinearGibbs
from r2d2net.run.choice import choose, epochs_for


def table(n, p, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, p, generator=g)
    return x, x[:, 0] + 0.1 * torch.randn(n, generator=g)


def classes(n, p):
    return torch.zeros(n, p), torch.zeros(n).long()


def path(inputs, outputs=1):
    return rn.nets.mlp(inputs, [8], outputs, linear=True)


CASES = {
    "linear": (rn.nets.mlp(5, [], 1), rn.likelihoods.Gaussian(), table(50, 5), {}, LinearGibbs),
    "wide": (nn.Linear(4000, 1), rn.likelihoods.Gaussian(), table(60, 4000), {}, LinearGibbs),
    "wide, a few hundred sweeps": (nn.Linear(3000, 1), rn.likelihoods.Gaussian(), table(300, 3000), {}, LinearGibbs),
    "wide, dear": (nn.Linear(20_000, 1), rn.likelihoods.Gaussian(), table(200, 20_000), {}, SVGI),
    "wide, dear, classes": (nn.Linear(3000, 3), rn.likelihoods.Categorical(), classes(300, 3000), {}, MCLMC),
    "linear, dear": (nn.Linear(2000, 1), rn.likelihoods.Gaussian(), table(600, 2000), {}, MCLMC),
    "linear, very long": (nn.Linear(10, 1), rn.likelihoods.Gaussian(), table(400_000, 10), {}, MCLMC),
    "many rows of classes": (nn.Linear(5, 3), rn.likelihoods.Categorical(), classes(3000, 5), {}, MCLMC),
    "600 columns, three classes": (nn.Linear(600, 3), rn.likelihoods.Categorical(), classes(400, 600), {}, LinearGibbs),
    "wide classes": (nn.Linear(20_000, 3), rn.likelihoods.Categorical(), classes(60, 20_000), {}, LinearGibbs),
    "wide, many classes": (nn.Linear(4000, 20), rn.likelihoods.Categorical(), classes(100, 4000), {}, MCLMC),
    "very wide, many classes": (nn.Linear(20_000, 10), rn.likelihoods.Categorical(), classes(60, 20_000), {}, SVGI),
    "wide, many outputs": (nn.Linear(4000, 20), rn.likelihoods.Gaussian(), (classes(100, 4000)[0],) * 2, {}, SVGI),
    "linear, known noise": (nn.Linear(5, 1), rn.likelihoods.Gaussian(noise=0.1), table(50, 5), {}, MCLMC),
    "network": (rn.nets.mlp(5, [20], 1), rn.likelihoods.Gaussian(), table(50, 5), {}, MCLMC),
    "wide, linear path": (path(300), rn.likelihoods.Gaussian(), table(100, 300), {}, LinearFirst),
    "linear path": (path(5), rn.likelihoods.Gaussian(), table(50, 5), {}, MCLMC),
    "wide, linear path, known noise": (path(90), rn.likelihoods.Gaussian(noise=0.1), table(50, 90), {}, MCLMC),
    "wide, linear path, classes": (path(90, 3), rn.likelihoods.Categorical(), classes(50, 90), {}, MCLMC),
    "wide, linear path, batches": (path(90), rn.likelihoods.Gaussian(), table(50, 90), {"batch_size": 10}, SVGI),
    "many rows": (rn.nets.mlp(5, [50, 50], 1), rn.likelihoods.Gaussian(), table(5000, 5), {}, SVGI),
    "batches": (rn.nets.mlp(5, [20], 1), rn.likelihoods.Gaussian(), table(50, 5), {"batch_size": 10}, SVGI),
    "patience": (rn.nets.mlp(5, [20], 1), rn.likelihoods.Gaussian(), table(50, 5), {"patience": 3}, SVGI),
    "arrays": (rn.nets.mlp(5, [20], 1), rn.likelihoods.Gaussian(), tuple(map(np.asarray, table(50, 5))), {}, MCLMC),
    "images": (
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10)),
        rn.likelihoods.Categorical(),
        (torch.zeros(200, 1, 28, 28), torch.zeros(200).long()),
        {},
        SVGI,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_choice_depends_on_network_and_rows(case):
    net, likelihood, data, given, expected = CASES[case]
    method, reason = choose(
        rn.BayesianModel(net, likelihood=likelihood), data, **{"batch_size": None, "patience": None, **given}
    )
    assert type(method) is expected
    assert reason.startswith(f"{expected.__name__}: ")


def test_streams_are_for_svgi():
    loader = DataLoader(TensorDataset(*table(50, 5)), batch_size=10)
    posterior = rn.fit(rn.BayesianModel(rn.nets.mlp(5, [3], 1)), loader, "auto", epochs=1, verbose=False)
    assert posterior.settings["algorithm"]["type"] == "SVGI"
    assert posterior.settings["chosen"] == "SVGI: the data come in batches"


def test_the_choice_is_stored_and_the_fit_is_that_of_the_algorithm_itself(tmp_path):
    model, data = rn.BayesianModel(rn.nets.mlp(3, [4], 1)), table(30, 3)
    automatic = rn.fit(model, data, "auto", epochs=10, verbose=False, checkpoint_to=tmp_path)
    by_name = rn.fit(model, data, "mclmc", epochs=10, verbose=False)
    assert automatic.settings["chosen"] == "MCLMC: 30 rows, 21 weights"
    assert "chosen" not in by_name.settings
    assert torch.equal(automatic.sample(5, seed=0), by_name.sample(5, seed=0))
    loaded = rn.load(tmp_path, rn.nets.mlp(3, [4], 1))
    assert loaded.settings == automatic.settings
    again = rn.fit(model, data, "auto", epochs=10, verbose=False, resume=tmp_path)
    assert torch.equal(again.sample(5, seed=0), by_name.sample(5, seed=0))


def test_a_wide_table_with_a_linear_path_is_fitted_by_linear_first():
    posterior = rn.fit(rn.BayesianModel(path(40)), table(20, 40), "auto", verbose=False)
    assert posterior.settings["chosen"] == "LinearFirst: a linear path, 20 rows of 40 inputs"
    assert posterior.settings["epochs"] == LinearFirst().default_epochs(20)


def test_estimators_take_auto():
    x, y = table(40, 3)
    model = rn.R2D2Regressor(hidden=(), algorithm="auto", epochs=50, random_state=0).fit(x.numpy(), y.numpy())
    assert model.posterior_.settings["algorithm"]["type"] == "LinearGibbs"
    classes = rn.R2D2Classifier(hidden=(4,), algorithm="Auto", epochs=10, random_state=0).fit(x.numpy(), y.numpy() > 0)
    assert classes.posterior_.settings["algorithm"]["type"] == "MCLMC"


@pytest.mark.parametrize(
    ("method", "rows", "expected"),
    [
        (SVGI(), 100, 300),
        (SVGI(), 10_000, 26),
        (MCLMC(), 100, 45),
        (MCLMC(), 1000, 30),
        (MCLMC(), 9000, 25),
        (LinearGibbs(), 100, 1000),
        (HMC(), 100, 300),
    ],
)
def test_epochs_where_the_user_names_none(method, rows, expected):
    assert epochs_for(rows, None, method) == expected


@pytest.mark.parametrize(
    ("method", "prior", "rows", "expected"),
    [
        (SVGI(), rn.priors.R2D2(), 100, 1000),
        (SVGI(), rn.priors.R2D2(), 300, 500),  # two batches
        (SVGI(), rn.priors.R2D2.adaptive(), 100, 300),
        (SVGI(averaging=1.0), rn.priors.R2D2(), 100, 300),
        (rn.inference.CAVI(), rn.priors.R2D2(), 100, 300),
    ],
)
def test_runs_that_average_their_sweeps_take_a_thousand_steps(method, prior, rows, expected):
    assert epochs_for(rows, None, method, rn.BayesianModel(nn.Linear(2000, 1), prior)) == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "likelihood", "expected"),
    [
        (20_000, 3, rn.likelihoods.Categorical(), 277),
        (100_000, 3, rn.likelihoods.Categorical(), 250),
        (20_000, 2, rn.likelihoods.Categorical(), 1000),  # one logit
        (4000, 3, rn.likelihoods.Categorical(), 1000),
        (20_000, 1, rn.likelihoods.Gaussian(), 1000),
        (20_000, 3, rn.likelihoods.Gaussian(), 277),
        (100_000, 1, rn.likelihoods.Gaussian(), 416),
    ],
)
def test_dear_sweeps_of_wide_tables_are_fewer(inputs, outputs, likelihood, expected):
    model = rn.BayesianModel(nn.Linear(inputs, outputs), likelihood=likelihood)
    assert epochs_for(60, None, LinearGibbs(), model) == expected


def test_the_length_of_a_run_without_epochs_is_that_of_its_algorithm():
    model, data = rn.BayesianModel(nn.Linear(3, 1)), table(20, 3)
    assert rn.fit(model, data, verbose=False).settings["epochs"] == 100
    assert rn.fit(model, data, "mclmc", verbose=False).settings["epochs"] == 45
