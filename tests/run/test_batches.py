"""Data in every form become the same batches, in an order that (seed, epoch) decides."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset

from r2d2net.errors import DataError, ParameterError
from r2d2net.run.batches import (
    DatasetBatches,
    LoaderBatches,
    TensorBatches,
    as_arrays,
    default_batch_size,
    joined,
    mix,
    permutation,
    rows_of,
)

X, Y = torch.arange(20.0).view(10, 2), torch.arange(10.0)


def arrays(data):
    return as_arrays(data, torch.device("cpu"), torch.float32)


class Stream(IterableDataset):
    def __init__(self, rows=None):
        self.rows = rows

    def __iter__(self):
        k = 0
        while self.rows is None or k < self.rows:
            yield X[k % 10], Y[k % 10]
            k += 1


class Augmented(Dataset):
    """Draws from the global generator, as image transforms do."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.rand(2), torch.tensor(float(index))


def whole_batches(size=4, *, drop_last=False):
    """For loaders whose dataset gives many rows at once, as that of images does."""
    return BatchSampler(SequentialSampler(Y), size, drop_last)


def kinds():
    return [
        TensorBatches(X, Y, 3, 7),
        DatasetBatches(TensorDataset(X, Y), 3, 7, arrays),
        LoaderBatches(DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True, drop_last=True), 9, 7, arrays),
    ]


def rows(batches, epoch, skip=0):
    return [y.tolist() for _, y in batches.epoch(epoch, skip)]


@pytest.mark.parametrize("kind", range(3))
def test_the_order_is_a_function_of_seed_and_epoch(kind):
    one, two = kinds()[kind], kinds()[kind]
    assert rows(one, 4) == rows(two, 4) == rows(one, 4)
    assert rows(one, 4) != rows(one, 5)
    assert rows(one, 4, skip=2) == rows(one, 4)[2:]
    assert rows(one, 4, skip=3) == []
    assert one.per_epoch() == len(rows(one, 0)) == 3
    seen = [row for batch in rows(one, 4) for row in batch]
    assert len(set(seen)) == 9
    for x, y in one.epoch(0):
        assert torch.equal(x[:, 0], 2 * y)  # x stays with its y


def test_tensors_and_datasets_have_the_same_order():
    tensors, dataset, _ = kinds()
    assert rows(tensors, 2) == rows(dataset, 2)
    assert rows(tensors, 2) != rows(TensorBatches(X, Y, 3, 8), 2)


def test_a_batch_larger_than_the_data_is_the_whole():
    batches = TensorBatches(X, Y, 64, 0)
    assert batches.per_epoch() == 1
    assert sorted(rows(batches, 0)[0]) == Y.tolist()


@pytest.mark.parametrize(
    "batches",
    [
        DatasetBatches(Augmented(), 2, 0, arrays),
        LoaderBatches(DataLoader(Augmented(), batch_size=2, shuffle=True), 6, 0, arrays),
    ],
    ids=["dataset", "loader"],
)
def test_random_transforms_follow_the_seed_and_leave_the_global_generator(batches):
    before = torch.get_rng_state()
    first = [x for x, _ in batches.epoch(0)]
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first, (x for x, _ in batches.epoch(0)), strict=True))
    assert torch.equal(first[2], next(iter(batches.epoch(0, skip=2)))[0])
    assert not torch.equal(first[0], first[1])


def test_a_stream_is_cut_into_epochs_of_n_rows():
    batches = LoaderBatches(DataLoader(Stream(), batch_size=4), 10, 0, arrays)
    assert batches.per_epoch() == 3
    assert len(rows(batches, 0)) == 3
    with pytest.raises(ParameterError, match="batch_size=None"):
        LoaderBatches(DataLoader(Stream(), batch_size=None), 10, 0, arrays).per_epoch()


@pytest.mark.parametrize(
    ("data", "options", "n", "warns"),
    [
        (Stream(10), {}, 10, False),
        (Stream(10), {}, 11, True),  # fewer rows than said
        (Stream(10), {}, 1000, True),
        (Stream(), {}, 10, False),  # without end: three batches of four
        (Stream(10), {"drop_last": True}, 10, False),  # nothing wrong with two rows that were left out
        (Stream(10), {"drop_last": True}, 12, True),
        (TensorDataset(X, Y), {}, 10, False),
        (TensorDataset(X, Y), {"sampler": whole_batches(drop_last=True), "batch_size": None}, 10, False),
        (TensorDataset(X, Y), {"sampler": whole_batches(drop_last=True), "batch_size": None}, 15, True),
        (TensorDataset(X, Y), {}, 5, True),
        (TensorDataset(X, Y), {}, 50, True),
    ],
)
def test_a_wrong_number_of_rows_is_told_once_at_the_end_of_the_first_epoch(data, options, n, warns):
    batches = LoaderBatches(DataLoader(data, **{"batch_size": 4, **options}), n, 0, arrays)
    stream = batches.epoch(0)
    message = rf"^n={n}, and the first epoch had \d+ rows: give n=<number of training rows>, [^\n]*$"
    with pytest.warns(UserWarning, match=message) if warns else nullcontext():
        list(stream)
    list(batches.epoch(1))  # warnings are errors here
    list(batches.epoch(0, skip=1))


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize(("size", "found"), [(3, [3, 3, 4]), (4, [4, 4, 2]), (9, [10]), (16, [10])])
def test_a_last_batch_of_one_row_joins_the_one_before(size, found, skip):
    """Every row is there once, and the number of batches is known before."""
    loaders = DataLoader(TensorDataset(X, Y), batch_size=size), DataLoader(Stream(10), batch_size=size)
    by_items = DataLoader(TensorDataset(X, Y), sampler=whole_batches(size), batch_size=None)
    for loader in (*loaders, by_items):
        batches = LoaderBatches(loader, 10, 0, arrays, joins=True)
        assert batches.per_epoch() == len(found)
        assert [len(y) for y in rows(batches, 0, skip)] == found[skip:]
        for x, y in batches.epoch(0):
            assert torch.equal(x[:, 0], 2 * y)
        assert [row for batch in rows(batches, 0) for row in batch] == Y.tolist()
    dropping = LoaderBatches(DataLoader(TensorDataset(X, Y), batch_size=3, drop_last=True), 9, 0, arrays, joins=True)
    assert [len(y) for y in rows(dropping, 0)] == [3, 3, 3]


def test_single_rows_of_several_inputs_join_too():
    parts = [((X[:2], Y[:2]), Y[:2]), ((X[2:3], Y[2:3]), Y[2:3]), ((X[3:4], Y[3:4]), Y[3:4]), ((X[4:], Y[4:]), Y[4:])]
    first, second = joined(parts)
    assert torch.equal(first[0][0], X[:4])
    assert torch.equal(first[0][1], first[1])
    assert torch.equal(second[1], Y[4:])


def test_mix_tells_seeds_and_parts_apart():
    assert len({mix(seed, part) for seed in range(100) for part in range(-3, 97)}) == 10_000
    assert torch.equal(permutation(5, 1, 2), permutation(5, 1, 2))
    assert 0 <= mix(-5, 3) < 2**63


def test_rows_are_counted_or_asked_for():
    data = TensorDataset(X, Y)
    assert rows_of(data, None) == rows_of(DataLoader(data, batch_size=3), None) == 10
    assert rows_of(DataLoader(data, batch_size=3, drop_last=True), None) == 9
    assert rows_of(DataLoader(Stream(), batch_size=3), 50) == 50
    for bad in (DataLoader(Stream(), batch_size=3), Stream()):
        with pytest.raises(ParameterError, match="n=<number of training rows>"):
            rows_of(bad, None)
    with pytest.raises(ParameterError, match="wrap it in a DataLoader"):
        rows_of(Stream(), 10)
    with pytest.raises(ParameterError, match="n=7, the data have 10 rows"):
        rows_of(data, 7)
    with pytest.raises(ParameterError, match="n=0 is out of range"):
        rows_of(DataLoader(data), 0)
    with pytest.raises(DataError, match="0 rows"):
        rows_of(TensorDataset(X[:0], Y[:0]), None)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (128, 128), (129, 128), (1000, 128), (10_000, 256), (10**7, 1024)])
def test_default_batch_size(n, size):
    assert default_batch_size(n) == size


def test_arrays_of_every_kind_become_tensors():
    frozen = np.arange(6.0).reshape(3, 2)[::-1]
    frozen.flags.writeable = False
    for x in (frozen, frozen.tolist(), frozen.astype(np.float16), torch.tensor(frozen.copy(), requires_grad=True)):
        found = arrays((x, np.array([0, 1, 2])))
        assert found.x.dtype == torch.float32
        assert found.x.tolist() == [[4, 5], [2, 3], [0, 1]]
        assert found.y.dtype == torch.int64
        assert not found.x.requires_grad
    several = arrays((X, np.zeros((10, 1)), Y))
    assert isinstance(several.x, tuple)
    assert [part.shape for part in several.x] == [(10, 2), (10, 1)]
    assert arrays(([X, X], Y)).x[1].shape == (10, 2)  # as default_collate gives pairs
    assert arrays((torch.zeros(3, dtype=torch.int64), [0.0, 1.0, 2.0])).x.dtype == torch.int64


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (([[0.0, 1.0], [NAN, 2.0]], [0.0, 1.0]), r"x holds nan at \(1, 0\): remove or fill"),
        ((X, torch.full((10,), INF)), r"y holds inf at \(0,\): remove or fill"),
        (((X, X / 0.0), Y), r"x holds nan at \(0, 0\)"),
        ((X[:0], Y[:0]), "data has 0 rows"),
        ((X[:, :0], Y), r"x has shape \(10, 0\): give at least one input"),
        ((X, Y[:5]), "x has 10 rows and y has 5: they must agree"),
        ((torch.tensor(1.0), Y), "data holds a scalar"),
        ((X, ["a"] * 10), "y has dtype <U1: numbers are needed"),
        (([[1.0], [1.0, 2.0]], [0.0, 1.0]), "x is no array of numbers"),
        ((X, np.zeros(10, dtype=complex)), "y has dtype complex128: numbers are needed"),
        (X, "data of type Tensor is not a pair"),
        ({"x": X, "y": Y}, "data has entries x, y and no 'labels': give targets under that name"),
        ((X,), r"data of type tuple is not a pair \(x, y\): give inputs and targets$"),
    ],
)
def test_bad_data_are_one_clear_line(data, message):
    with pytest.raises(DataError, match=f"^{message}") as caught:
        arrays(data)
    assert "\n" not in str(caught.value)
