"""The law of an input given all others: closed form of normal columns, probabilities of levels, ranges."""

import numpy as np
import torch

from r2d2net.shrinkage.conditional_inputs import ConditionalInputs


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_normal_columns_have_their_conditional_moments():
    """5,000 rows: means and covariances are off by five standard errors of a correlation at most, below 1e-5."""
    root = torch.linalg.cholesky(torch.tensor([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]]).double())
    x = normal(5000, 3) @ root.T * torch.tensor([1.0, 3.0, 0.5]) + 2
    law = ConditionalInputs(x, [[0], [1, 2]])
    drawn = law.draw(1, 200, torch.Generator().manual_seed(1))  # (draws, rows, 2)
    scaled = (drawn - 2) / torch.tensor([3.0, 0.5])
    covariance = root @ root.T
    slope = covariance[1:, :1] / covariance[0, 0]
    wanted = (x[:, :1] - 2) @ slope.T
    assert (scaled.mean(0) - wanted).square().mean().sqrt() < 5 * 5000**-0.5 + 5 * (200 * 5000) ** -0.5 + 0.05
    left = covariance[1:, 1:] - slope @ covariance[:1, 1:]
    flat = (scaled - scaled.mean(0)).flatten(0, 1)
    torch.testing.assert_close(flat.T @ flat / len(flat), left, rtol=0, atol=0.06)


def test_an_input_does_not_tell_its_own_draws():
    x = normal(300, 4)
    law = ConditionalInputs(x, [[i] for i in range(4)])
    drawn = law.draw(2, 1, torch.Generator().manual_seed(0))[0, :, 0]
    assert abs(float(torch.corrcoef(torch.stack([drawn, x[:, 2]]))[0, 1])) < 0.2  # 3.5 standard errors


def test_draws_keep_to_the_range_of_a_skewed_column():
    x = normal(200, 2).exp()
    drawn = ConditionalInputs(x, [[0], [1]]).draw(0, 50, torch.Generator().manual_seed(0))
    assert drawn.min() >= x[:, 0].min()
    assert drawn.max() <= x[:, 0].max()


def test_levels_of_a_category_have_their_probabilities():
    """Three levels, told by a column of numbers: frequencies of draws in halves of the rows agree with the data's."""
    number = normal(2000, 1)
    codes = (number[:, 0] + normal(2000, seed=1) > torch.tensor([[-0.7], [0.7]])).sum(0)
    x = torch.cat([number, torch.nn.functional.one_hot(codes, 3).double()], 1)
    law = ConditionalInputs(x, [[0], [1, 2, 3]])
    levels = law.levels(1)
    assert levels is not None
    assert law.levels(0) is None
    drawn = law.draw_codes(1, 20, torch.Generator().manual_seed(0))
    for half in (number[:, 0] > 0, number[:, 0] <= 0):
        now = np.bincount(drawn[:, half].flatten(), minlength=3) / drawn[:, half].numel()
        then = np.bincount(levels.codes[half], minlength=3) / int(half.sum())
        np.testing.assert_allclose(now, then, atol=5 * (0.25 / 1000) ** 0.5)  # five standard errors


def test_a_constant_column_stays():
    x = torch.cat([normal(50, 1), torch.ones(50, 1)], 1)
    law = ConditionalInputs(x, [[0], [1]])
    levels = law.levels(1)
    assert levels is not None
    assert len(levels.rows) == 1
    assert law.draw_codes(1, 3, torch.Generator().manual_seed(0)).max() == 0
