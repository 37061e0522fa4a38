"""The kernel of relevances beside torch: sizes, linear path, NaN, levels and threads; where it is used."""

import pytest
import torch
from torch import Tensor

import r2d2net as rn
from native_kernels import NEEDS_KERNELS, plant, without_library
from r2d2net.inference import SVGI
from r2d2net.native import library
from r2d2net.network_inputs import no_units
from r2d2net.posterior import Posterior
from r2d2net.shrinkage import input_relevance
from r2d2net.shrinkage.shuffled_outputs import most_rows

SIZES = [(3, 5, 1, 1), (7, 50, 64, 2), (2, 1, 63, 4), (5, 17, 130, 3), (4, 8, 500, 2)]  # inputs, units, rows, shuffles


def problem(inputs: int, units: int, rows: int, shuffles: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Start, last layer, weights, linear path and changes."""
    g = torch.Generator().manual_seed(units)
    sizes = (rows, units), (units,), (inputs, units), (inputs,), (inputs, shuffles * rows)
    return tuple(torch.randn(size, generator=g) for size in sizes)


def expected(start: Tensor, last: Tensor, weight: Tensor, straight: Tensor | None, change: Tensor) -> Tensor:
    """The formula, in float64; there the products with V come after the activation."""
    start, last, weight, change = (part.double() for part in (start, last, weight, change))
    start = start.repeat(change.shape[1] // len(start), 1)
    moved = (start + change[:, :, None] * weight[:, None]).relu() @ last - start.relu() @ last
    if straight is not None:
        moved += straight[:, None].double() * change
    return moved.square().mean(1)


def assert_right(*sizes: int) -> None:
    start, last, weight, straight, change = problem(*sizes)
    for path in (None, straight):
        found = library.relu_changes(start, last, weight, path, change, sizes[-1])
        torch.testing.assert_close(found.double(), expected(start, last, weight, path, change), rtol=1e-5, atol=1e-9)


@NEEDS_KERNELS
@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernel_has_the_formula(sizes):
    assert_right(*sizes)


@NEEDS_KERNELS
@pytest.mark.parametrize("sign", [-1, 1])
def test_all_weights_of_one_sign_and_weights_of_zero(sign):
    start, last, weight, straight, change = problem(4, 9, 70, 2)
    for v in (sign * last.abs(), torch.zeros_like(last), last * (torch.arange(9) % 2)):
        found = library.relu_changes(start, v, weight, straight, change, 2)
        torch.testing.assert_close(found.double(), expected(start, v, weight, straight, change), rtol=1e-5, atol=1e-9)


@NEEDS_KERNELS
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("moved[k] += a > 0.0f ? 0.0f : a;", "moved[k] += a < 0.0f ? 0.0f : a;"),
        ("= beside * d[k];", "= 1.01f * beside * d[k];"),
        ("rows - i < BLOCK ? rows - i : BLOCK", "BLOCK - (rows - i < BLOCK)"),
        ("change + (j * shuffles + s) * rows + i", "change + (j * shuffles) * rows + i"),
    ],
    ids=["sign", "path", "tail", "shuffle"],
)
def test_planted_faults_are_seen(monkeypatch, tmp_path, right, wrong):
    plant(monkeypatch, tmp_path / "faulty", right, wrong)
    with pytest.raises(AssertionError):
        assert_right(5, 17, 130, 3)


@NEEDS_KERNELS
def test_what_is_no_number_stays_so():
    start, last, weight, straight, change = problem(3, 6, 70, 2)
    weight[1, 2] = float("nan")
    found = library.relu_changes(start, last, weight, straight, change, 2)
    assert found.isnan().tolist() == [False, True, False]
    start[69, 0] = float("nan")
    assert bool(library.relu_changes(start, last, weight, straight, change, 2).isnan().all())


@NEEDS_KERNELS
def test_levels_and_threads_change_nothing(monkeypatch):
    start, last, weight, straight, change = problem(40, 17, 130, 3)

    def found() -> Tensor:
        return library.relu_changes(start, last, weight, straight, change, 3)

    threads, whole = torch.get_num_threads(), found()
    for level in range(3):
        library.use_level(level)
        assert torch.equal(found(), whole)
    library.use_level(-1)
    try:
        for part, count in ((1, 1), (390, 2), (2000, 3)):
            monkeypatch.setattr(library, "PART", part)
            torch.set_num_threads(count)
            assert torch.equal(found(), whole)
    finally:
        torch.set_num_threads(threads)


def untrained(net: torch.nn.Module, dtype: torch.dtype = torch.float32) -> Posterior:
    model = rn.BayesianModel(net.to(dtype), rn.priors.R2D2())
    g, x = torch.Generator().manual_seed(0), torch.zeros(10, 6, dtype=dtype)
    trainer = SVGI().build(model, n=10, steps=10)
    return Posterior(trainer.source(trainer.init(x[:, :1], g)), no_units(x), flat_target=True)


@NEEDS_KERNELS
@pytest.mark.parametrize("path", [False, True])
def test_relevances_are_those_of_torch(monkeypatch, tmp_path, path):
    """Only rounding differs: the same draws and shuffles. Inputs of several columns are left to torch."""
    torch.manual_seed(0)
    posterior = untrained(rn.nets.mlp(6, [20], 1, linear=path))
    x = torch.randn(150, 6, generator=torch.Generator().manual_seed(1))
    groups = [[0], [1], [2, 3], [4], [5]]
    calls, kernel = [], library.relu_changes
    monkeypatch.setattr(library, "relu_changes", lambda *arguments: calls.append(1) or kernel(*arguments))
    by_kernel = input_relevance(posterior, x, groups=groups, draws=5)
    assert calls
    calls.clear()
    without_library(monkeypatch, tmp_path)
    by_torch = input_relevance(posterior, x, groups=groups, draws=5)
    assert not calls
    assert bool((by_torch.mean > 0.01).any())
    for one, other in zip(by_kernel, by_torch, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@NEEDS_KERNELS
@pytest.mark.parametrize(
    ("net", "dtype"),
    [
        (rn.nets.mlp(6, [20], 1), torch.float64),
        (rn.nets.mlp(6, [20], 1, "tanh"), torch.float32),
        (rn.nets.mlp(6, [20, 5], 1), torch.float32),
        (rn.nets.mlp(6, [20], 2), torch.float32),
    ],
    ids=["float64", "tanh", "deeper", "two outputs"],
)
def test_other_networks_are_left_to_torch(monkeypatch, net, dtype):
    monkeypatch.setattr(library, "relu_changes", None)
    posterior = untrained(net, dtype)
    assert bool(input_relevance(posterior, torch.randn(50, 6, dtype=dtype), draws=2).mean.isfinite().all())
    assert most_rows(posterior.model, 6) < 1 << 20
