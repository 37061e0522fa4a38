"""Prediction does not depend on how it is cut into pieces."""

import pandas as pd
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

import r2d2net as rn
from architectures import ZOO, mlp
from r2d2net import posterior as module
from r2d2net.estimators.double_draws import in_double
from r2d2net.network_inputs import as_tensors

X = ZOO[0].x


@pytest.fixture(scope="module")
def fitted():
    return rn.fit(rn.BayesianModel(mlp()), (X, ZOO[0].y), epochs=2, verbose=False)


def test_rows_and_draws_may_be_cut_anywhere(fitted, monkeypatch):
    whole = fitted.predict(X, draws=8).samples
    # the same weights: only the rounding of matrix products differs
    torch.testing.assert_close(fitted.predict(X, draws=8, rows=5).samples, whole, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(module, "MEMORY", 3 * fitted.model.size)
    cut = fitted.predict(X, draws=8).samples
    assert cut.shape == whole.shape
    assert len({float(sample[0]) for sample in cut}) == 8


def test_all_rows_see_the_same_draws(fitted):
    twice = fitted.predict(torch.cat([X, X]), draws=4, rows=12).samples
    assert torch.equal(twice[:, :12], twice[:, 12:])


def test_a_generator_takes_the_place_of_the_seed(fitted):
    given = fitted.predict(X, draws=3, generator=torch.Generator().manual_seed(9)).samples
    assert torch.equal(given, fitted.predict(X, draws=3, seed=9).samples)
    assert not torch.equal(fitted.sample(2), fitted.sample(2))  # no seed: fresh draws
    for bad in (True, "nine", 1.5):
        with pytest.raises(rn.ParameterError, match=r"^seed=.* is out of range: use a whole number$"):
            fitted.predict(X, draws=3, seed=bad)


def test_the_mean_network_has_no_epistemic_uncertainty(fitted):
    prediction = fitted.predict(X, draws="mean")
    assert prediction.samples.shape == (1, 12)
    assert bool((prediction.epistemic == 0).all())


def test_draws_have_the_moments_of_q(fitted):
    """40,000 draws of 21 weights: five standard errors, false alarm 2e-5."""
    draws = fitted.sample(40_000, seed=0)
    deviation = fitted.source.deviation()
    assert bool(((draws.mean(0) - fitted.mean()).abs() < 5 * deviation / 200).all())
    assert bool(((draws.std(0) / deviation - 1).abs() < 5 / 280).all())


def test_inputs_that_the_network_does_not_take_are_one_line():
    """Where nothing is standardised, nothing but the network knows the shape."""
    x = torch.randn(20, 8)
    data = torch.utils.data.TensorDataset(x, x[:, 0])
    posterior = rn.fit(rn.BayesianModel(torch.nn.Linear(8, 1)), data, epochs=1, standardize=False, verbose=False)
    for bad in (x[:, :5], (x, x), x.long()):
        with pytest.raises(rn.errors.DataError, match=r"^net does not take x of shape [^\n]*$"):
            posterior.predict(bad)
    with pytest.raises(rn.errors.DataError, match="x holds a scalar"):
        posterior.predict(3.0)


def test_tables_are_inputs_in_fit_and_in_predict(fitted):
    table = pd.DataFrame(X.numpy(), columns=["a", "b", "c"])
    by_table = rn.fit(rn.BayesianModel(mlp()), (table, pd.Series(ZOO[0].y.numpy())), epochs=2, verbose=False)
    assert torch.equal(by_table.predict(table, 3).samples, by_table.predict(X, 3).samples)
    with pytest.raises(rn.errors.DataError, match=r"^x of type DataFrame is no array of numbers"):
        by_table.predict(table.assign(a="high"))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(X)


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(X, ZOO[0].y),
        TensorDataset(X),
        Stream(),
        DataLoader(TensorDataset(X, ZOO[0].y), batch_size=5),
        DataLoader(TensorDataset(X), batch_size=5),
        DataLoader(X, batch_size=5),
        DataLoader(Stream(), batch_size=5),
    ],
)
def test_datasets_and_loaders_are_inputs_in_predict(fitted, data):
    state = torch.random.get_rng_state()
    assert torch.equal(fitted.predict(data, 3).samples, fitted.predict(X, 3).samples)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_of_several_inputs_the_last_is_the_target():
    found = as_tensors(DataLoader(TensorDataset(X, 2 * X, ZOO[0].y), batch_size=5))
    assert len(found) == 2
    assert torch.equal(found[0], X)
    assert torch.equal(found[1], 2 * X)


class Lists(Dataset):
    """Batches of one row after the other, each one column wider."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i == 3:
            raise IndexError
        return torch.zeros(1, i + 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (DataLoader(X, batch_size=5, shuffle=True), "x is a DataLoader that shuffles: [^\n]*give it shuffle=False"),
        (
            DataLoader(X, sampler=BatchSampler(RandomSampler(X), 5, False), batch_size=None),
            "x is a DataLoader that shuf",
        ),
        (DataLoader([{"a": 1.0}]), "x gives items of type dict: they must be tensors, or tuples of them$"),
        (
            DataLoader(Lists(), batch_size=None),
            r"x gives batches of shapes \[\(1, 1\)\] and \[\(1, 2\)\]: they must agree",
        ),
        (DataLoader([]), "x has 0 rows"),
        ({"a": 1}, "x is a dict, and the network was fitted to inputs by position: give them so$"),
        (iter([1.0]), "x of type list_iterator is no array of numbers: give a tensor"),
    ],
)
def test_what_predict_does_not_take_is_one_line_of_our_own(fitted, bad, message):
    with pytest.raises(rn.errors.R2D2NetError, match=f"^{message}") as error:
        fitted.predict(bad)
    assert "\n" not in str(error.value)
    assert "numpy" not in str(error.value)


def test_a_posterior_prints_what_it_is(fitted):
    assert repr(fitted) == "Posterior(SVGI, Gaussian likelihood, 21 weights by prior: 16 R2D2, 5 Gaussian)"
    assert repr(in_double(fitted)).endswith("21 weights by prior: 16 R2D2, 5 Gaussian)")
    model = rn.BayesianModel(mlp(), {"0.*": rn.priors.Horseshoe()}, bias=None)
    sampled = rn.fit(model, (X, ZOO[0].y), rn.inference.SGLD(chains=2), epochs=4, verbose=False)
    stored = sampled.source.available
    expected = f"Posterior(SGLD, Gaussian likelihood, 16 weights by prior: 16 Horseshoe, stored draws: {stored})"
    assert repr(sampled) == expected
    assert len(sampled.predict(X, 1000).samples) == stored


@pytest.mark.parametrize("algorithm", ["svgi", "map", "sghmc"])
def test_a_float64_network_with_learnt_noise_is_saved_and_loaded(algorithm, tmp_path):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=g, dtype=torch.float64)
    net = torch.nn.Linear(2, 1, dtype=torch.float64)
    model = rn.BayesianModel(net, rn.priors.Gaussian())
    posterior = rn.fit(model, (x, x[:, 0]), algorithm, epochs=4, verbose=False)
    posterior.save(tmp_path)
    assert torch.equal(rn.load(tmp_path, net).predict(x).mean, posterior.predict(x).mean)
