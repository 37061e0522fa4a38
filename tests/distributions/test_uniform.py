"""Uniform numbers made of bits: their law, their pairs, and what they are where bits cannot be taken."""

import pytest
import torch
from scipy.stats import chisquare, kstest

from r2d2net.distributions.primitives import fill_uniform

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return fill_uniform(torch.empty(shape, dtype=dtype), torch.Generator().manual_seed(seed))


@DTYPES
def test_they_are_uniform(dtype):
    """False alarm once in 10^4 runs; the seed is pinned."""
    assert kstest(drawn(200_000, dtype=dtype).double().numpy(), "uniform").pvalue > 1e-4


@DTYPES
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbours_are_independent(dtype, lag):
    """Counts of pairs in a 16 x 16 table: float32's pairs are halves of one draw. False alarm once in 10^4 runs."""
    cells = (drawn(200_000, dtype=dtype, seed=lag) * 16).long()
    pairs = torch.bincount(cells[:-lag] * 16 + cells[lag:], minlength=256)
    assert chisquare(pairs.numpy()).pvalue > 1e-4


@DTYPES
def test_all_bits_are_used(dtype):
    """Each place of the mantissa is set in half of the numbers: 5 standard errors, 1e-5 for all 52 places."""
    scaled = (drawn(100_000, dtype=dtype).double() / torch.finfo(dtype).eps).long()
    places = 23 if dtype == torch.float32 else 52
    shares = torch.stack([(scaled >> place & 1).double().mean() for place in range(places)])
    assert int(scaled.max()) < 2**places
    assert float((shares - 0.5).abs().max()) < 5 * 0.5 / 100_000**0.5


@pytest.mark.parametrize("shape", [(7,), (), (3, 5), (0,)])
def test_odd_counts_are_filled_too(shape):
    found = drawn(*shape)
    assert bool(((found >= 0) & (found < 1)).all())
    assert found.unique().numel() == found.numel()


def test_only_the_view_is_written():
    room = torch.full((12,), -1.0)
    fill_uniform(room[2:8], torch.Generator().manual_seed(0))
    fill_uniform(room[9:11], torch.Generator().manual_seed(0))  # starts in the middle of 64 bits
    assert room.lt(0).nonzero().squeeze(1).tolist() == [0, 1, 8, 11]


def test_the_seed_decides():
    assert torch.equal(drawn(10), drawn(10))
    assert not torch.equal(drawn(10), drawn(10, seed=1))
