"""Weights in few bits: what rounding costs, files, validation rows, bad input."""

import math
from typing import Any

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.errors import CheckpointError, ParameterError
from r2d2net.shrinkage import load_quantised, prune, quantise
from r2d2net.shrinkage.packed_weights import pack, unpack


def rows(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator)
    return x, x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(n, generator=generator)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return rn.fit(
        rn.BayesianModel(rn.nets.mlp(6, [12], 1, activation="tanh")), rows(), "cavi", epochs=60, verbose=False
    )


def test_rounding_costs_what_the_posterior_says() -> None:
    """400 orthogonal inputs under a wide prior: the loss rises by K step^2 / 24 nats on average.

    Errors of rounding are uniform and independent: the rise of a weight has the deviation step^2 / (24 sqrt(5 / 4)).
    """
    generator = torch.Generator().manual_seed(1)
    x = torch.linalg.qr(torch.randn(800, 400, generator=generator))[0] * 30
    y = x @ torch.randn(400, generator=generator) + torch.randn(800, generator=generator)
    model = rn.BayesianModel(nn.Linear(400, 1, bias=False), rn.priors.Gaussian(100.0), rn.likelihoods.Gaussian(1.0))
    method = rn.inference.CAVI(lr=0.1, warm_up=0.0)
    posterior = rn.fit(model, (x, y), method, epochs=20, batch_size=800, standardize=False, verbose=False)
    exact = torch.linalg.lstsq(x, y[:, None]).solution[:, 0]
    state = posterior.source.state  # to be at the loss's minimum, with its curvature
    posterior.source = posterior.source.with_state(
        state._replace(mean=exact, rho=torch.full_like(exact, math.log(30**2)))
    )
    step = 2.0
    rounded = quantise(posterior, step=step)
    loss = [(y - x @ each).square().sum().double() / 2 for each in (exact, rounded.posterior.mean())]
    expected = 400 * step**2 / 24
    error = 400**0.5 * step**2 / 24 * (4 / 5) ** 0.5
    assert abs(float(loss[1] - loss[0]) - expected) < 5 * error  # 6e-7


def test_means_are_on_the_grid_and_deviations_as_they_were(fitted: Any) -> None:
    pruned = prune(fitted, ratio=4)
    small = quantise(pruned)
    means, old = small.posterior.named(small.posterior.mean()), pruned.named(pruned.mean())
    for row in small.layers:
        values = means[row.layer] / row.step
        torch.testing.assert_close(values, values.round(), rtol=0, atol=1e-4)
        assert float((means[row.layer] - old[row.layer]).abs().max()) <= row.step / 2 * 1.001
        assert len(values.unique()) <= 2**row.bits + 1
    assert sum(row.weights for row in small.layers) == 21
    assert bool((small.posterior.mean()[pruned.mean() == 0] == 0).all())
    inner, before = small.posterior.source.inner, pruned.source.inner
    assert torch.equal(inner.deviation(), before.deviation())
    fine = quantise(pruned, step=0.01)
    assert fine.bits > small.bits
    assert "bits a weight" in str(fine)


def test_validation_rows_choose_the_step(fitted: Any) -> None:
    held = rows(150)
    small = quantise(fitted, validation=held)
    whole, cut = (each.predict(held[0], draws=20).log_prob(held[1]).double() for each in (fitted, small.posterior))
    assert float(cut.mean()) >= float(whole.mean() - whole.std() / 150**0.5)
    coarser = quantise(fitted, step=2 * small.step).posterior.predict(held[0], draws=20).log_prob(held[1]).double()
    assert small.step == 4.0 or float(coarser.mean()) < float(whole.mean() - whole.std() / 150**0.5)


def test_the_file_holds_the_network_in_the_bytes_that_it_tells(fitted: Any, tmp_path: Any) -> None:
    x, _ = rows()
    small = quantise(prune(fitted, ratio=4))
    sizes = small.save(tmp_path / "net")
    assert sizes.quantised == (tmp_path / "net").stat().st_size
    loaded = load_quantised(tmp_path / "net", rn.nets.mlp(6, [12], 1, activation="tanh"))
    assert torch.equal(loaded(x), small.net(x))
    with pytest.raises(CheckpointError, match="is of another network"):
        load_quantised(tmp_path / "net", rn.nets.mlp(6, [13], 1))
    with pytest.raises(CheckpointError):
        load_quantised(tmp_path / "none", rn.nets.mlp(6, [12], 1))
    small.posterior.save(tmp_path / "run")
    again = rn.load(tmp_path / "run", rn.nets.mlp(6, [12], 1, activation="tanh"))
    assert torch.equal(again.mean(), small.posterior.mean())


def test_few_bits_are_few_bytes() -> None:
    values = torch.randint(-7, 8, (300, 200), generator=torch.Generator().manual_seed(0)).float() * 0.5
    keep = torch.rand(300, 200, generator=torch.Generator().manual_seed(1)) < 0.05
    packed = pack(values * keep, keep, 0.5)
    assert packed.bits == 4
    assert torch.equal(unpack(packed), values * keep)
    entropy = 60_000 * 0.286 / 8  # bytes of which weights are left: 0.286 bits each at 5%
    assert len(packed.codes) + len(packed.mask) < 4 * int(keep.sum()) / 8 + 1.5 * entropy
    for wrong in (
        packed._replace(left=7),
        packed._replace(bits=0),
        packed._replace(mask=b"x"),
        packed._replace(mask=b""),
    ):
        with pytest.raises(CheckpointError):
            unpack(wrong)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"step": 0.0}, "step=0.0 is out of range: use a number above 0, such as 1"),
        ({"step": 1.0, "validation": rows()}, "step=1.0 is chosen by validation rows: leave one out"),
        ({"validation": 3}, "validation is a int: give a pair (x, y)"),
        ({"draws": 0}, "draws=0 is out of range: use a whole number from 1"),
        ({"step": 1e-60}, "step=1e-60 needs more than 32 bits for '0.weight': use a larger one, such as 1"),
        ({"step": 1e300}, "step=1e+300 is beyond the numbers of float32 for '0.weight': use a smaller one, such as 1"),
        ({"step": 1e-12}, "step=1e-12 needs more than 32 bits for '0.weight': use a larger one, such as 1"),
    ],
)
def test_bad_input_is_one_line(fitted: Any, arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ParameterError) as caught:
        quantise(fitted, **arguments)
    assert str(caught.value) == line


def test_posteriors_without_deviations_are_refused() -> None:
    point = rn.fit(rn.BayesianModel(nn.Linear(6, 1), rn.priors.Gaussian()), rows(), "map", epochs=2, verbose=False)
    with pytest.raises(ParameterError, match="posterior=PointDraw needs a mean-field posterior: use one that svgi"):
        quantise(point)
