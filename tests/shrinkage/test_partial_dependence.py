"""Average predictions of a known function, and of a linear network, whose effects are lines."""

import math
import sys

import pytest
import torch

import r2d2net as rn
from r2d2net.shrinkage.partial_dependence import average_predictions, partial_dependence


def rows(count: int = 50, columns: int = 3) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_known_function_has_its_effects(monkeypatch) -> None:
    """f = w (sin x0 + x1 x2) at three draws w: the curve of x0 is its sine, that of x1 a line, shifted by means."""
    monkeypatch.setattr(sys.modules[average_predictions.__module__], "AT_ONCE", 130)  # values in several blocks
    x, scale, values = rows(), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64), torch.linspace(-2, 2, 7).double()

    def predict(table: torch.Tensor) -> torch.Tensor:
        return scale[:, None] * (table[:, 0].sin() + table[:, 1] * table[:, 2])

    sine = average_predictions(predict, x, [0], values[:, None])
    torch.testing.assert_close(sine, scale[:, None] * (values.sin() + (x[:, 1] * x[:, 2]).mean()))
    line = average_predictions(predict, x, [1], values[:, None])
    torch.testing.assert_close(line, scale[:, None] * (values * x[:, 2].mean() + x[:, 0].sin().mean()))
    pair = average_predictions(predict, x, [1, 2], torch.stack([values, values], 1))
    torch.testing.assert_close(pair, scale[:, None] * (values**2 + x[:, 0].sin().mean()))


@pytest.fixture(scope="module")
def linear() -> tuple[rn.Posterior, torch.Tensor]:
    x = rows(400).float() * 3 + 1
    y = 2 * x[:, 0] - x[:, 1] + 0.5 * torch.randn(400, generator=torch.Generator().manual_seed(1))
    return rn.fit(rn.BayesianModel(torch.nn.Linear(3, 1)), (x, y), epochs=30, seed=0, verbose=False), x


def test_band_of_a_linear_network_is_that_of_its_weight(linear) -> None:
    """The slope between two values is the weight; a band of two values' difference has the weight's quantiles."""
    posterior, x = linear
    found = partial_dependence(posterior, x, [0], [0.0, 1.0], draws=200)
    assert float(found.mean[1] - found.mean[0]) == pytest.approx(2, abs=0.05)
    samples = posterior.predict(torch.cat([x.index_fill(1, torch.tensor(0), v) for v in (0.0, 1.0)]), 200).samples
    curves = samples.view(len(samples), 2, len(x)).mean(2)
    torch.testing.assert_close(found.low, curves.quantile(0.05, dim=0))
    torch.testing.assert_close(found.high, curves.quantile(0.95, dim=0))
    assert bool((found.low < found.mean).all() and (found.mean < found.high).all())
    wide = partial_dependence(posterior, x, [0], [0.0, 1.0], draws=200, level=0.99)
    assert bool((wide.low < found.low).all() and (wide.high > found.high).all())
    flat = partial_dependence(posterior, x, [2], [[-3.0], [3.0]])
    assert math.isclose(float(flat.mean[0]), float(flat.mean[1]), abs_tol=0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": [5]}, r"^columns=\[5\] .*use numbers of columns from 0 to 2$"),
        ({"columns": []}, r"^columns=\[\]"),
        ({"values": [[1.0, 2.0]]}, r"^values has shape \(1, 2\): give \(values, 1\)$"),
        ({"level": 1.5}, r"^level=1.5 "),
        ({"x": torch.zeros(3)}, r"^x is no table of rows"),
    ],
)
def test_bad_arguments_are_one_line(linear, change, message) -> None:
    posterior, x = linear
    arguments = {"x": x, "columns": [0], "values": [0.0], **change}
    with pytest.raises(rn.R2D2NetError, match=message):
        partial_dependence(posterior, **arguments)
