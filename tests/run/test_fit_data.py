"""What `fit` makes of data: units, forms, seeds, and every kind of bad input."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import r2d2net as rn
from architectures import Encoder, conv, mlp
from r2d2net.inference import CAVI, SVGI

ALGORITHMS = pytest.mark.parametrize("algorithm", [SVGI(), CAVI(), CAVI(estimator="weights")], ids=repr)


def table(rows=60, dtype=torch.float64):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=draw, dtype=dtype)
    return x, x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(rows, generator=draw, dtype=dtype)


X, Y = table()


def model(likelihood=None, net=None):
    return rn.BayesianModel(mlp().double() if net is None else net, rn.priors.R2D2(), likelihood)


def fit(data=None, algorithm=None, model=model, **settings):
    given = {"epochs": 3, "batch_size": 16, "verbose": False, **settings}
    return rn.fit(model(), (X, Y) if data is None else data, algorithm, **given)


def same_state(a, b):
    return all(torch.equal(u, v) for u, v in ((a.mean(), b.mean()), (a.state.rho, b.state.rho)))


# --- units


@ALGORITHMS
def test_predictions_follow_the_units_of_the_data(algorithm):
    """The network sees the same numbers, up to rounding, whatever the units: 1e-9 is 1e7 times float64's rounding."""
    scale, shift = torch.tensor([1e-3, 50.0, 7.0], dtype=torch.float64), torch.tensor([1.0, -300.0, 0.1])
    other = fit((X * scale + shift, 40 * Y + 1000), algorithm, epochs=10).predict(X * scale + shift, draws=5)
    plain = fit((X, Y), algorithm, epochs=10).predict(X, draws=5)
    torch.testing.assert_close(other.samples, 40 * plain.samples + 1000, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(other.std, 40 * plain.std, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(other.interval()[0], 40 * plain.interval()[0] + 1000, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(other.log_prob(40 * Y + 1000), plain.log_prob(Y) - math.log(40), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_columns_keep_their_scale(dtype):
    x, y = table(dtype=dtype)
    x[:, 2] = 0.1  # its mean in float32 is not 0.1
    posterior = fit((x, y), model=lambda: model(net=mlp().to(dtype)))
    assert float(posterior.units.x_scale[2]) == 1
    shifted = x.clone()
    shifted[:, 2] += 1
    assert bool((posterior.predict(shifted, draws=2).samples.abs() < 1e3).all())
    constant = fit((X, torch.full_like(Y, 5.0)))
    assert float(constant.predict(X, draws=2).mean.mean()) == pytest.approx(5, abs=5)


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_float32_inputs_of_any_size(size):
    x, y = table(dtype=torch.float32)
    posterior = fit((size * x, y), model=lambda: model(net=mlp()))
    torch.testing.assert_close(posterior.units.x_scale / size, x.std(0, correction=0), rtol=1e-5, atol=0)
    assert bool(torch.isfinite(posterior.predict(size * x, draws=2).mean).all())


def test_standardize_can_be_turned_off():
    posterior = fit((X, 1000 + Y), standardize=False)
    assert torch.equal(posterior.units.inputs(X), X)
    assert float(posterior.predict(X, draws=2).mean.abs().max()) < 100  # three epochs cannot reach 1000


def test_new_inputs_must_have_the_columns_of_the_old():
    posterior = fit()
    for bad in (X[:, :1], X[0], X[:, :, None], torch.zeros(0, 3)):
        with pytest.raises(rn.DataError, match=r"^x has "):
            posterior.predict(bad)
    with pytest.raises(rn.DataError, match="not finite"):
        posterior.predict(X / 0)
    with pytest.raises(rn.DataError, match="no array of numbers"):
        posterior.predict(["a"])
    for bad in (0, 2.5, "median"):
        with pytest.raises(rn.ParameterError, match=r"^draws="):
            posterior.predict(X, draws=bad)


# --- forms


def test_numpy_lists_and_tensors_are_the_same_data():
    plain = fit()
    assert same_state(plain, fit((X.numpy(), Y.numpy())))
    assert same_state(plain, fit((X.tolist(), Y.tolist())))
    wide = fit((X.numpy(), Y.numpy()), model=lambda: model(net=mlp()))
    assert wide.predict(X.numpy(), draws=2).mean.dtype == torch.float32


def test_a_dataset_is_the_same_as_its_tensors():
    data = TensorDataset(X, Y)
    plain = [fit(data, SVGI(warm_up=0.0), standardize=False) for data in ((X, Y), data)]
    assert same_state(*plain)


def test_targets_keep_the_users_shape():
    for data in ((X, Y), TensorDataset(X, Y)):
        assert fit(data).predict(X, draws=2).mean.shape == (60,)
    for data in ((X, Y[:, None]), TensorDataset(X, Y[:, None])):
        assert fit(data).predict(X, draws=2).mean.shape == (60, 1)


def test_loaders_and_streams():
    loader = DataLoader(TensorDataset(X, Y), batch_size=25, shuffle=True)
    posterior = fit(loader, batch_size=None)
    assert posterior.settings["n"] == 60
    assert int(posterior.state.step) == 9

    class Stream(IterableDataset):
        def __iter__(self):
            return zip(X, Y, strict=True)

    posterior = fit(DataLoader(Stream(), batch_size=20), batch_size=None, n=60)
    assert int(posterior.state.step) == 9
    with pytest.raises(rn.ParameterError, match="n=<number of training rows>"):
        fit(DataLoader(Stream(), batch_size=20), batch_size=None)
    with pytest.raises(rn.DataError, match="no batch"):
        fit(DataLoader(_Empty(), batch_size=20), batch_size=None, n=60)


class _Empty(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        (rn.likelihoods.Gaussian(), 1, Y),
        (rn.likelihoods.Heteroscedastic(), 2, Y),
        (rn.likelihoods.Bernoulli(), 1, (Y > 0).long()),
        (rn.likelihoods.Categorical(), 2, (Y > 0).long()),
        (rn.likelihoods.Poisson(), 1, Y.abs().round()),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("data", ["tensors", "dataset"])
def test_every_likelihood_fits_and_is_validated(likelihood, outputs, y, data):
    network = model(likelihood, nn.Linear(3, outputs).double())
    train = (X, y) if data == "tensors" else TensorDataset(X, y)
    posterior = rn.fit(network, train, epochs=4, validation=(X, y), patience=2, verbose=False)
    score = -float(posterior.predict(X, 20).log_prob(y).mean())
    best = min(entry["validation"] for entry in posterior.history)
    assert score < best if likelihood.learns_noise else score == pytest.approx(best, rel=1e-6)


# --- networks that one row cannot train


def normed():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)).double()


@pytest.mark.parametrize("stream", [False, True])
def test_batch_norm_and_a_last_batch_of_one_row(stream):
    class Stream(IterableDataset):
        def __iter__(self):
            return zip(X, Y, strict=True)

    data = Stream() if stream else TensorDataset(X, Y)
    for net, steps in ((normed(), 1), (mlp().double(), 2)):  # other networks take the row by itself
        posterior = rn.fit(model(net=net), DataLoader(data, batch_size=59), n=60, epochs=1, verbose=False)
        assert int(posterior.state.step) == steps


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        ((X, Y), {"batch_size": 1}, "batch_size=1: BatchNorm layers are trained by two rows or more in a batch; use"),
        (TensorDataset(X, Y), {"batch_size": 1}, "batch_size=1: BatchNorm layers"),
        (DataLoader(TensorDataset(X, Y)), {}, "batch_size=1: BatchNorm layers"),
        ((X[:1], Y[:1]), {}, "the first batch has 1 row: BatchNorm layers are trained by two rows or more"),
    ],
)
def test_batch_norm_and_batches_of_one_row(data, settings, message):
    with pytest.raises((rn.ParameterError, rn.DataError), match=f"^{message}") as caught:
        rn.fit(model(net=normed()), data, epochs=1, verbose=False, **settings)
    assert "\n" not in str(caught.value)


def test_batch_norm_over_the_pixels_of_one_image_is_fine():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 1)).double()
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    assert int(fit((x, Y[:3]), model=lambda: model(net=net), batch_size=1, epochs=1).state.step) == 3


# --- seeds


@ALGORITHMS
def test_a_seed_gives_the_same_bytes_and_another_seed_others(algorithm):
    first, again, other = (fit(algorithm=algorithm, seed=seed) for seed in (3, 3, 4))
    assert same_state(first, again)
    assert not same_state(first, other)
    draws = [first.predict(X, draws=3, seed=seed).samples for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("net", [conv, Encoder], ids=["dropout", "encoder"])
def test_the_global_generators_are_neither_read_nor_changed(net):
    """With networks that draw from them themselves, and a loader that shuffles."""
    x, y = (torch.randn(12, 1, 4, 4), torch.arange(12) % 3) if net is conv else (torch.randn(12, 5, 4), torch.rand(12))
    likelihood = rn.likelihoods.Categorical() if net is conv else None
    module = net()
    posteriors = []
    for number in (1, 2):
        torch.manual_seed(number)
        np.random.seed(number)  # noqa: NPY002 (the state that must not change)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
        posteriors += [rn.fit(model(likelihood, module), loader, epochs=2, verbose=False)]
        posteriors[-1].predict(x, draws=2)
        posteriors[-1].sample(2)
        assert torch.equal(before[0], torch.get_rng_state())
        assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert same_state(*posteriors)


def test_a_fit_works_where_gradients_are_off():
    with torch.no_grad():
        assert same_state(fit(), fit())


# --- bad input

CLASSES = rn.likelihoods.Categorical()


@pytest.mark.parametrize(
    ("data", "likelihood", "outputs", "message"),
    [
        ((X, Y), CLASSES, 3, "y holds .*: a categorical likelihood needs whole class numbers"),
        ((X, torch.arange(60) % 4), CLASSES, 3, "y holds class 3, net gives 3 outputs"),
        (TensorDataset(X, torch.arange(60) % 4), CLASSES, 3, "y holds class 3, net gives 3 outputs"),
        ((X, Y), rn.likelihoods.Poisson(), 1, "y holds .*: a Poisson likelihood needs counts"),
        ((X, torch.arange(60)), rn.likelihoods.Bernoulli(), 1, "y holds 59: a Bernoulli likelihood needs 0 and 1"),
        ((X, Y), None, 2, "net gives 2 outputs, the likelihood Gaussian needs 1 for these targets: let net end in 1"),
        (
            (X, torch.arange(60) % 2),
            None,
            2,
            "net gives 2 outputs, the likelihood Gaussian needs 1 .* if they are classes",
        ),
        (TensorDataset(X, torch.arange(60) % 2), None, 2, "net gives 2 .* if they are classes, give likelihood=rn"),
        ((X, torch.zeros(60, 2)), None, 1, "net gives 1 outputs, the likelihood Gaussian needs 2"),
        ((X, Y), rn.likelihoods.Heteroscedastic(), 1, "net gives 1 outputs, the likelihood Heteroscedastic needs 2"),
        ((X[:, :2], Y), None, 1, r"net does not take x of shape \(16, 2\) torch.float64: mat1 and mat2"),
        ((X.long(), Y), None, 1, r"net does not take x of shape \(16, 3\) torch.int64"),
        ((X[:, 0], Y), None, 1, r"net does not take x of shape \(16,\)"),
        (((X, X), Y), None, 1, "net does not take x"),
        ((X / 0, Y), None, 1, r"x holds .* at \(0, 0\)"),
        (TensorDataset(X, Y / 0), None, 1, "y holds .* at"),
        ((X[:0], Y[:0]), None, 1, "data has 0 rows"),
    ],
)
def test_bad_data_are_refused_before_training(data, likelihood, outputs, message):
    with pytest.raises(rn.DataError, match=f"^{message}") as caught:
        fit(data, model=lambda: model(likelihood, nn.Linear(3, outputs).double()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((X[:, :2], Y), r"x has shape \(60, 2\): the model was fitted to \(rows, 3\)"),
        ((X, Y[:, None].repeat(1, 2)), "net gives 1 outputs|.*must agree"),
        ((X, Y / 0), "y holds"),
        (0.999, "validation=0.999 leaves no training rows of 60"),
    ],
)
def test_bad_validation_data_are_refused_before_training(validation, message):
    with pytest.raises(rn.DataError, match=f"^{message}"):
        fit(validation=validation)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs=0 is out of range: use a whole number from 1"),
        ({"epochs": 1.5}, "epochs=1.5 is out of range"),
        ({"epochs": "ten"}, "epochs='ten' is out of range"),
        ({"batch_size": 0}, "batch_size=0 is out of range"),
        ({"batch_size": "all"}, "batch_size='all' is out of range"),
        ({"patience": 3}, "patience=3 needs validation data"),
        ({"patience": 0, "validation": 0.1}, "patience=0 is out of range"),
        ({"validation": 1.5}, "validation=1.5 is out of range: use a share between 0 and 1"),
        ({"validation": "some"}, r"validation='some' is out of range: use a share between 0 and 1, or \(x, y\)"),
        ({"seed": None}, "seed=None is out of range"),
        ({"seed": True}, "seed=True is out of range: use a whole number"),
        ({"epochs": True}, "epochs=True is out of range"),
        ({"batch_size": True}, "batch_size=True is out of range"),
        ({"validation": True}, "validation=True is out of range"),
        ({"data": TensorDataset(X, Y), "validation": True}, "validation=True is out of range"),
        ({"checkpoint_every": True}, "checkpoint_every=True is out of range"),
        ({"checkpoint_every": float("nan")}, "checkpoint_every=nan is out of range"),
        ({"restarts": 0}, "restarts=0 is out of range: use a whole number from 1"),
        ({"restarts": None}, "restarts=None is out of range"),
        ({"jobs": 0}, "jobs=0 is out of range: use a whole number from 1"),
        ({"jobs": -1, "restarts": 2}, "jobs=-1 is out of range"),
        ({"prior": "best"}, "prior='best' is out of range: use 'auto', or give a prior of your own to BayesianModel"),
        ({"prior": rn.priors.R2D2()}, r"prior=R2D2\(.*\) is out of range: use 'auto'"),
        ({"data": TensorDataset(X, Y), "restarts": 2}, "restarts=2 needs validation data: a Dataset cannot be split"),
        ({"data": TensorDataset(X, Y), "prior": "auto"}, "prior='auto' needs validation data: a Dataset cannot be"),
        ({"n": 7}, "n=7, the data have 60 rows: leave n out"),
        ({"algorithm": "sgvi"}, "algorithm='sgvi' is no algorithm: use one of cavi, "),
        ({"algorithm": SVGI}, r"algorithm=SVGI is a class: write SVGI\(\)"),
        ({"algorithm": "deepensemble", "restarts": 2}, "restarts=2: DeepEnsemble makes 5 runs of its own; leave it"),
        ({"model": mlp}, "model is a Sequential: wrap the network in r2d2net.BayesianModel"),
        ({"data": TensorDataset(X, Y), "validation": 0.1}, "validation=0.1: a Dataset or DataLoader cannot be split"),
        ({"data": DataLoader(TensorDataset(X, Y)), "batch_size": 5}, "batch_size=5: a DataLoader brings its own"),
    ],
)
def test_bad_settings_are_one_clear_line(settings, message):
    with pytest.raises(rn.ParameterError, match=f"^{message}") as caught:
        fit(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y)], ids=["arrays", "dataset"])
def test_validation_data_are_called_by_their_own_name(data):
    for validation, message in (
        ((X,), r"validation of type tuple is not a pair \(x, y\): give inputs and targets"),
        ((X[:0], Y[:0]), "validation has 0 rows: give at least one"),
        ((1.0, 2.0), "validation holds a scalar: x and y need a first dimension of rows"),
    ):
        with pytest.raises(rn.DataError, match=f"^{message}$"):
            fit(data=data, validation=validation)


def test_an_unknown_option_is_a_type_error():
    with pytest.raises(TypeError, match="learning_rate"):
        fit(learning_rate=0.1)


class Exploding(nn.Module):
    """Its gradient becomes nan at the third step; earlier and later all else is well."""

    def __init__(self, *, in_loss):
        super().__init__()
        self.linear, self.calls, self.in_loss = nn.Linear(3, 1), 0, in_loss

    def forward(self, x):
        self.calls += self.training
        output = self.linear(x)
        if self.calls < 3 or not self.training:
            return output
        return output * math.inf if self.in_loss else output + 0 * torch.sqrt(output - output.detach())


@pytest.mark.parametrize("in_loss", [True, False])
@pytest.mark.parametrize("estimator", ["weights", "local"])
def test_divergence_names_the_step_and_the_parameter(in_loss, estimator):
    network = model(net=Exploding(in_loss=in_loss).double())
    what = "the loss became (nan|inf) at step 3" if in_loss else "(training diverged|the loss became nan) at step [34]"
    with pytest.raises(rn.DivergenceError, match=f"^{what}: parameter 'linear.weight' is not finite; use a smaller lr"):
        rn.fit(network, (X, Y), SVGI(estimator=estimator), epochs=1, batch_size=15, verbose=False)


# --- numbers that the network's dtype cannot hold


def test_columns_that_float32_cannot_tell_apart_are_refused():
    """Unix times in float32 are all alike; a float64 network tells them."""
    time, y = 1.6e9 + torch.arange(64.0, dtype=torch.float64), torch.arange(64.0) / 10
    with pytest.raises(rn.errors.DataError, match=r"x\[:, 0\] varies by 18.6 about 1.6e\+09, .* cannot tell: subtract"):
        rn.fit(rn.BayesianModel(nn.Linear(1, 1)), (time[:, None], y), epochs=1, verbose=False)
    with pytest.raises(rn.errors.DataError, match=r"y\[:, 0\] varies"):
        rn.fit(rn.BayesianModel(nn.Linear(1, 1)), (y[:, None], time), epochs=1, verbose=False)
    posterior = rn.fit(rn.BayesianModel(nn.Linear(1, 1).double()), (time[:, None], y), epochs=300, verbose=False)
    assert float((posterior.predict(time[:, None]).mean - y).abs().max()) < 0.2


@pytest.mark.parametrize("size", [1e20, 1e-25])
def test_targets_whose_variance_is_no_number_are_refused(size):
    x = torch.randn(20, 1)
    with pytest.raises(rn.errors.DataError, match=r"y has values of size .*: rescale it"):
        rn.fit(rn.BayesianModel(nn.Linear(1, 1)), (x, size * x[:, 0]), epochs=1, verbose=False)
