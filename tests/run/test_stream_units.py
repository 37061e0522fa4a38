"""Units of data that come batch by batch: those of the same rows as tensors, in one pass."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import r2d2net as rn
from r2d2net.network_inputs import measure_units, no_units
from r2d2net.run.stream_units import Moments, stream_units

G = torch.Generator().manual_seed(0)
X = torch.randn(101, 3, generator=G) * torch.tensor([1.0, 1e-3, 0.0]) + torch.tensor([0.0, 70.0, 4.2])
Y = 1000 * X[:, :1] + 5000 + torch.randn(101, 1, generator=G)


def net(inputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))


def fit(data, model=None, **options):
    return rn.fit(model or rn.BayesianModel(net()), data, verbose=False, **{"epochs": 60, **options})


@pytest.mark.parametrize("size", [1, 7, 101])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_units_are_those_of_all_rows(size, dtype):
    """float64 moments of 101 rows of size 5000: their rounding errors are far below that of float32."""
    x, y = X.to(dtype), Y.to(dtype)
    batches = zip(x.split(size), y.split(size), strict=True)
    units, rows, _ = stream_units(batches, targets=True, like=y)
    whole = measure_units(x, y, inputs=True, targets=True)
    assert rows == 101
    for found, expected in zip((*units[:2], *units.y[:2]), (*whole[:2], *whole.y[:2]), strict=True):
        assert found.dtype == dtype
        assert torch.allclose(found, expected, rtol=1e-6 if dtype == torch.float32 else 1e-12)
    assert units.x_scale[2] == 1  # a constant
    assert units.y.most == y.max()


def test_moments_refuse_other_columns():
    moments = Moments.of(X)
    with pytest.raises(rn.DataError, match=r"data gives rows of shapes \(2,\) and \(3,\): they must agree"):
        moments.add(X[:, :2])


@pytest.mark.parametrize("kind", ["dataset", "loader", "shuffled loader", "stream"])
def test_a_stream_predicts_in_the_units_of_its_rows(kind):
    """y = 1000 x + 5000: unstandardised, a network never comes near (an RMSE of about 5000)."""

    class Stream(IterableDataset):
        def __iter__(self):
            return zip(X, Y, strict=True)

    data = {
        "dataset": TensorDataset(X, Y),
        "loader": DataLoader(TensorDataset(X, Y), batch_size=20),
        "shuffled loader": DataLoader(TensorDataset(X, Y), batch_size=20, shuffle=True),
        "stream": DataLoader(Stream(), batch_size=20),
    }[kind]
    posterior = fit(data, n=101, validation=(X[:30], Y[:30]))
    whole = fit((X, Y))
    assert torch.allclose(posterior.units.y.scale, whole.units.y.scale, rtol=1e-5)
    error = float((posterior.predict(X).mean - Y).square().mean().sqrt())
    assert error < 0.5 * float(Y.std())
    assert posterior.health["error_ratio"] < 0.5  # of the validation rows, in the same units
    raw = fit(data, n=101, standardize=False, epochs=1)
    assert raw.units.x_scale.numel() == 0
    assert raw.units.y.scale == 1


class Counting(Dataset):
    def __init__(self, x, y):
        self.x, self.y, self.read = x, y, 0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        self.read += 1
        return self.x[i], self.y[i]


def test_a_pass_is_made_only_where_something_is_standardised():
    images, classes = torch.randn(40, 1, 2, 2, generator=G), torch.arange(40) % 2
    model = rn.BayesianModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), likelihood=rn.likelihoods.Categorical())
    read = []
    for x in (images, images.flatten(1)):
        data = Counting(x, classes)
        fit(data, model, epochs=1, batch_size=20)
        read.append(data.read)
    assert read[1] - read[0] >= 40  # a table: all its rows


def test_what_can_be_read_once_is_refused():
    class Once(IterableDataset):
        def __init__(self):
            self.rows = iter(list(zip(X, Y, strict=True)))

        def __iter__(self):
            return self.rows

    with pytest.raises(rn.DataError, match=r"^data was read once.*: give standardize=False"):
        fit(DataLoader(Once(), batch_size=10), n=101, epochs=1)


def test_a_killed_run_goes_on_in_the_same_units(tmp_path):
    loader = DataLoader(TensorDataset(X, Y), batch_size=20, shuffle=True)
    alone = fit(loader, epochs=3)
    resumed = fit(loader, epochs=3, resume=tmp_path / "run")
    again = fit(loader, epochs=3, resume=tmp_path / "run")  # the finished run
    for other in (resumed, again):
        assert torch.equal(alone.predict(X, 3).mean, other.predict(X, 3).mean)
    with pytest.raises(rn.CheckpointError):
        fit(DataLoader(TensorDataset(X[:90], Y[:90]), batch_size=20), epochs=3, resume=tmp_path / "run")
    loaded = rn.load(tmp_path / "run", net())
    assert torch.equal(alone.predict(DataLoader(TensorDataset(X, Y), batch_size=7), 3).mean, loaded.predict(X, 3).mean)


@pytest.mark.parametrize(
    "likelihood", [rn.likelihoods.LogNormal(), rn.likelihoods.StudentT(), rn.likelihoods.Heteroscedastic()]
)
def test_other_likelihoods_of_numbers(likelihood):
    outputs = 2 if isinstance(likelihood, rn.likelihoods.Heteroscedastic) else 1
    torch.manual_seed(0)
    model = rn.BayesianModel(nn.Linear(3, outputs), likelihood=likelihood)
    y = Y - Y.min() + 10
    stream, whole = (fit(data, model, epochs=20, batch_size=101) for data in (TensorDataset(X, y), (X, y)))
    for found, expected in zip(stream.units.y, whole.units.y, strict=True):
        assert (found is None) == (expected is None)
        assert found is None or torch.allclose(found, expected)
    assert torch.allclose(stream.predict(X).mean, whole.predict(X).mean, rtol=0.02)


def test_no_rows_have_no_units():
    units, rows, _ = stream_units((), targets=True, like=Y)
    assert rows == 0
    assert torch.equal(units.y.scale, no_units(Y).y.scale)
