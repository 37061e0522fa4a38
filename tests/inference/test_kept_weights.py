"""Scales of layers without some of their weights: counts and sums are over the weights that are left.

False alarms: two of Geweke's tests at 2e-6 each; the planted fault is rejected at the same level. Seeds are pinned.
"""

from itertools import pairwise
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.errors import ParameterError
from r2d2net.inference.kept_weights import KeptSweeps
from r2d2net.inference.scale_updates import CoordinateUpdate, GibbsUpdate, Known, ScaleSweeps
from r2d2net.priors import R2D2, Gaussian, GroupHorseshoe, GroupR2D2, Horseshoe, HorseshoePlus, SpikeSlab
from r2d2net.priors.weight_groups import has_members
from r2d2net.shrinkage import Pruned, compress, prune
from r2d2net.testing import geweke
from r2d2net.testing.coordinate_ascent import bounds_over_sweeps

REJECT = 2e-6
COLUMNS = {"one": [0, 1, 2], "two": [3, 4, 5], "three": [6]}
GROUPED = R2D2.from_r2({"one": 0.1, "two": 0.2, "three": 0.3}, 2.0, 0.5, groups=COLUMNS)
SMALL = R2D2.from_r2(
    {"one": 1 / 7, "two": 2 / 7}, 1.4, 0.5, groups={"one": [0, 1], "two": [2, 3]}
)  # the same a_g and b
PRIORS: list[Any] = [
    *(R2D2(), R2D2.from_r2(), R2D2.adaptive(), Horseshoe(), HorseshoePlus(), SpikeSlab(), GROUPED),
    *(kind(groups=groups) for kind in (GroupR2D2, GroupHorseshoe) for groups in ("inputs", "outputs")),
]
RAGGED = torch.tensor([[1, 0, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0]]) > 0  # inputs with 3, 0, 2 and 1 weights


def model_of(prior: Any, outputs: int, inputs: int) -> Any:
    return rn.BayesianModel(nn.Linear(inputs, outputs, bias=False), prior)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_a_layer_without_rows_and_columns_is_the_smaller_layer(prior: Any) -> None:
    """The smaller layer has scales of its own shape, which the code for layers with gaps never sees."""
    rows, columns = torch.tensor([0, 2, 3]), torch.tensor([1, 2, 4, 5])
    keep = torch.zeros(5, 7, dtype=torch.bool)
    keep[rows[:, None], columns] = True
    w = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)) * keep
    whole, small = model_of(prior, 5, 7), model_of(SMALL if prior is GROUPED else prior, 3, 4)
    scales = prior.init_scales((5, 7), torch.Generator().manual_seed(1))

    def cut(x: Tensor) -> Tensor:
        if x.dim() == 0:
            return x.clone()
        x = x[rows] if x.shape[0] == 5 else x
        return (x[:, columns] if x.shape[1] == 7 else x).clone()

    own, precision, room = {"weight": type(scales)._make(map(cut, scales))}, torch.ones(35), torch.ones(12)
    gone = {"weight": scales}
    before = [x.clone() for x in scales]
    small_w = w[rows][:, columns].reshape(-1)
    sweeps = ScaleSweeps(small, CoordinateUpdate()), ScaleSweeps(whole, CoordinateUpdate())
    nothing = torch.Generator()
    sweeps[0].refresh(own, room, Known(small_w), nothing, 4)
    KeptSweeps(sweeps[1], keep.reshape(-1)).refresh(gone, precision, Known(w.reshape(-1)), nothing, 4)
    for found, expected, old in zip(gone["weight"], own["weight"], before, strict=True):
        torch.testing.assert_close(cut(found), expected, rtol=1e-4, atol=0)
        if found.shape == keep.shape:
            assert torch.equal(found[~keep], old[~keep])
    torch.testing.assert_close(precision.view(5, 7)[keep], room, rtol=1e-4, atol=0)
    assert bool((precision.view(5, 7)[~keep] == 1).all())
    draws = {"weight": type(scales)._make(x.clone() for x in scales)}
    KeptSweeps(ScaleSweeps(whole, GibbsUpdate()), keep.reshape(-1)).refresh(
        draws, precision, Known(w.reshape(-1)), torch.Generator().manual_seed(2)
    )
    assert bool(torch.isfinite(precision).all())
    assert not torch.equal(precision.view(5, 7)[keep], room)


@pytest.mark.parametrize("prior", [GroupR2D2(0.3, 1.0, 0.5), GroupHorseshoe(0.5, 0.6, 0.3)], ids=repr)
def test_groups_of_several_sizes(prior: Any) -> None:
    """Gibbs leaves the joint law unchanged, and coordinate ascent never lowers the bound."""
    ragged = prior.kept(RAGGED)
    assert geweke(ragged, layer=(6,), seed=1, sweeps=2, chains=5_000).p_value > REJECT
    m = 10 ** torch.linspace(-8, 2, 6, dtype=torch.float64)
    scales = ragged.init_scales((6,), torch.Generator().manual_seed(0), dtype=m.dtype)
    bounds = bounds_over_sweeps(ragged, m, scales, 15)
    assert all(after >= before - 1e-11 * abs(before) for before, after in pairwise(bounds))
    assert ragged.variance(scales).shape == (6,)


def test_orders_of_whole_groups_are_rejected() -> None:
    class CountsTheGone(GroupR2D2):
        def _t_conditional(self, square: Any, scales: Any) -> Any:
            chi, rho, _ = super()._t_conditional(square, scales)
            return chi, rho, self.a_pi - 3 / 2

    assert geweke(CountsTheGone(1.0, 1.0).kept(RAGGED), layer=(6,), seed=1, chains=5_000).p_value < REJECT


def test_a_network_with_zeros_is_fitted_as_the_network_without_them() -> None:
    """Of 60 inputs two count. With 58 of them held at zero, and left out: the same posterior and the same scales."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 60, generator=generator)
    y = x[:, 0] - 2 * x[:, 1] + 0.5 * torch.randn(200, generator=generator)
    model = rn.BayesianModel(nn.Linear(60, 1))
    settings: dict[str, Any] = {"epochs": 300, "batch_size": 200, "standardize": False, "verbose": False}
    cut = prune(rn.fit(model, (x, y), "cavi", **settings), weights=2)
    assert torch.nonzero(cut.mean()[:60]).reshape(-1).tolist() == [0, 1]
    held = rn.fit(model, (x, y), Pruned.going_on(cut, rn.inference.CAVI(lr=0.02)), **settings)
    small = rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (x[:, :2], y), rn.inference.CAVI(lr=0.02), **settings)
    ours, theirs = held.state.inner, small.state
    torch.testing.assert_close(ours.mean[:2], theirs.mean[:2], rtol=0.01, atol=0)
    # 60 weights in place of 2 would multiply xi by 9
    torch.testing.assert_close(ours.scales["weight"].xi, theirs.scales["weight"].xi, rtol=0.03, atol=0)
    torch.testing.assert_close(ours.precision[:2], theirs.precision[:2], rtol=0.03, atol=0)


def test_a_prior_of_groups_that_says_nothing_of_gaps_is_refused() -> None:
    class Outsider(GroupR2D2):
        kept = Gaussian.kept

    sweeps = KeptSweeps(ScaleSweeps(model_of(Outsider(), 3, 4), CoordinateUpdate()), RAGGED.reshape(-1))
    scales = {"weight": Outsider().init_scales((3, 4), torch.Generator().manual_seed(0))}
    with pytest.raises(ParameterError, match="shares scales among some weights of 'weight', of which some are gone"):
        sweeps.refresh(scales, torch.ones(12), Known(torch.ones(12)), torch.Generator())


def test_members() -> None:
    assert has_members(RAGGED, (1, 4)).tolist() == [[True, False, True, True]]
    assert has_members(RAGGED, (3, 1)).all()


@pytest.mark.parametrize("prior", [R2D2.from_r2(0.4, 2.0, 0.3), R2D2.from_r2(0.4, 2.0, 0.3, groups={"all": range(4)})])
def test_few_weights_left_have_the_r2_of_the_whole_layer(prior: Any) -> None:
    """Kolmogorov-Smirnov of R2 of two weights, for which a_pi was too small; false-alarm rate 1e-6 each."""
    keep = torch.zeros(3, 4, dtype=torch.bool)
    keep[0, :2] = True
    for few, shape in ((prior.kept(keep), (2,)), (prior.smaller((1, 4)).kept(keep[:1]), (2,))):
        generator = torch.Generator().manual_seed(0)
        omega = torch.stack([few.init_scales(shape, generator, dtype=torch.float64).T.sum() for _ in range(1000)])
        assert stats.kstest((omega / (1 + omega)).numpy(), stats.beta(0.8, 1.2).cdf).pvalue > 1e-6
    assert (prior.kept(~keep) is prior) == isinstance(prior, R2D2)  # ten are enough; columns of groups have moved


@pytest.mark.filterwarnings("ignore::r2d2net.errors.FitWarning", "ignore::r2d2net.errors.PruningWarning")
@pytest.mark.parametrize("cut", ["units", "weights"])
def test_a_stated_r2_goes_on_with_few_weights(cut: Any) -> None:
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
    groups = {"a": [0, 1, 2], "b": [3, 4, 5]}
    for prior in (R2D2.from_r2(0.5, 2.0, 0.15), R2D2.from_r2(0.5, 2.0, 0.15, groups=groups)):
        model = rn.BayesianModel(rn.nets.mlp(6, [8], 1), prior)
        how: Any = {"cut": cut, "epochs": 3, "refit_epochs": 2, "thresholds": (1e9,)}
        found = compress(model, (x, x[:, 0]), 20, **how)
        assert bool(found.posterior.predict(x[:3]).mean.isfinite().all())
        assert found.rounds[-1].weights <= 7
    refit = compress(
        rn.BayesianModel(rn.nets.mlp(6, [8], 1)), (x, x[:, 0]), 20, **how, prior=R2D2.from_r2(0.5, 2.0, 0.15)
    )
    assert bool(refit.posterior.predict(x[:3]).mean.isfinite().all())
