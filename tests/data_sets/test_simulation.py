"""The simulated scenarios: their formulas, their noise, and what the paper's table was computed on."""

import pytest
import torch

from r2d2net.data import simulate
from r2d2net.errors import ParameterError

NAMES = ["1", "2", "3", "sparse-linear", "dense-linear"]


@pytest.mark.parametrize("variant", ["text", "table"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_a_function_of_the_seed_and_noise_has_its_size(name: str, variant: str) -> None:
    """Noise sd within 4% at n = 10,000: five standard errors, false alarms below 1e-5 a case."""
    before = torch.random.get_rng_state()
    data = simulate(name, seed=3, variant=variant)
    again = simulate(name, seed=3, variant=variant)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(data.x, again.x)
    assert torch.equal(data.y, again.y)
    assert not torch.equal(data.y, simulate(name, seed=4, variant=variant).y)
    assert data.x.dtype == data.y.dtype == data.mean.dtype == torch.float32
    assert data.x.shape == (10_000, len(data.relevant))
    assert data.y.shape == data.mean.shape == (10_000,)
    assert -5 <= data.x.min() < -4.99
    assert 4.99 < data.x.max() <= 5
    assert (data.y - data.mean).std().item() == pytest.approx(data.noise, rel=0.04)


def test_formulas() -> None:
    one = simulate(1, n=50, seed=0)
    torch.testing.assert_close(one.mean, one.x[:, 0] ** 3)
    two = simulate(2, n=50, seed=0)
    torch.testing.assert_close(two.mean, two.x[:, 0] * (two.x[:, 1] ** 2 + 1) + two.x[:, 2] * two.x[:, 3])
    noise = {
        (name, variant): simulate(name, n=1, seed=0, variant=variant).noise
        for name in NAMES
        for variant in ("text", "table")
    }
    assert list(noise.values()) == [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(("variant", "left"), [("text", 148), ("table", 541)])
def test_linear_fit_leaves_what_the_paper_prints(variant: str, left: float) -> None:
    """The printed linear-regression error tells the variants apart; 5% is three standard errors."""
    data = simulate(2, seed=0, variant=variant)
    x = torch.cat([data.x, torch.ones(len(data.x), 1)], 1)
    residual = data.y - x @ torch.linalg.lstsq(x, data.y[:, None]).solution[:, 0]
    assert residual.square().mean().item() == pytest.approx(left, rel=0.05)


def test_teacher_is_drawn_as_torch_draws_linear_layers() -> None:
    data = simulate(3, n=20, seed=0)
    assert data.teacher is not None
    first, _, second, _, last = data.teacher
    assert [tuple(layer.weight.shape) for layer in (first, second, last)] == [(32, 1000), (64, 32), (1, 64)]
    torch.testing.assert_close(data.teacher(data.x)[:, 0], data.mean)
    for layer in (first, second, last):
        bound = layer.in_features**-0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias.abs().max() <= bound
    assert first.weight.std().item() == pytest.approx((3 * 1000) ** -0.5, rel=0.02)


@pytest.mark.parametrize(("name", "relevant"), [("sparse-linear", 100), ("dense-linear", 900)])
def test_linear_coefficients(name: str, relevant: int) -> None:
    data = simulate(name, n=20, seed=0)
    assert data.coefficients is not None
    assert int(data.relevant.sum()) == relevant
    assert torch.equal(data.coefficients != 0, data.relevant)
    assert 0 <= data.coefficients.min() <= data.coefficients.max() < 1
    torch.testing.assert_close(data.mean, data.x @ data.coefficients)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": 4}, "scenario=4 is not known: use one of 1, 2, 3, sparse-linear, dense-linear"),
        ({"variant": "paper"}, "variant='paper' is out of range"),
        ({"n": 0}, "n=0 is out of range"),
        ({"seed": -1}, "seed=-1 is out of range"),
    ],
)
def test_bad_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        simulate(**{"scenario": 1, "n": 5, "seed": 0} | arguments)
