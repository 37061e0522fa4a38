"""Priors of groups of weights: which weights share a scale, conditionals of groups of several, planted faults.

`tests/priors/test_contract.py` proves the contract with one group of all weights of a layer. Here layers have several
groups of several weights. False alarms: twelve tests at 2e-6 each; seeds are pinned.
"""

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.errors import ParameterError
from r2d2net.priors import R2D2, GroupHorseshoe, GroupR2D2, HorseshoePlus, group_r2d2, half_cauchy_product
from r2d2net.priors.weight_groups import shape_of_groups
from r2d2net.testing import geweke
from r2d2net.testing.coordinate_ascent import bounds_over_sweeps

REJECT = 2e-6
PRIORS = [GroupR2D2(0.3, 1.0, 0.5), GroupHorseshoe(0.5, 0.6, 0.3)]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_gibbs_leaves_the_joint_law_of_groups_unchanged(prior: Any) -> None:
    assert geweke(prior, layer=(3, 2), seed=1, sweeps=2).p_value > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("layer", [(2, 3), (2, 3, 2)])
@pytest.mark.parametrize("groups", ["inputs", "outputs", "filters"])
@pytest.mark.parametrize("kind", [GroupR2D2, GroupHorseshoe])
def test_gibbs_leaves_the_joint_law_of_every_kind_of_group_unchanged(kind: Any, groups: Any, layer: Any) -> None:
    assert geweke(kind(groups=groups), layer=layer, seed=2).p_value > REJECT


class PerWeight(GroupR2D2):
    """T of the order that belongs to groups of one weight."""

    def _t_conditional(self, square: Any, scales: Any) -> Any:
        chi, rho, _ = super()._t_conditional(square, scales)
        return chi, rho, self.a_pi - 0.5


class HalvedChi(GroupR2D2):
    def _t_conditional(self, square: Any, scales: Any) -> Any:
        chi, rho, lam = super()._t_conditional(square, scales)
        return chi / 2, rho, lam


class PerWeightRate(GroupR2D2):
    """xi of the shape that belongs to one T for each weight."""

    def _xi_conditional(self, t: Any, scales: Any) -> Any:
        own = super()._xi_conditional(t, scales)
        many = scales.psi.numel() / own.rate.numel() * self.a_pi + self.b
        return torch.distributions.Gamma(torch.full_like(own.rate, many), own.rate, validate_args=False)


class StaleXi(GroupR2D2):
    """xi given the T of the sweep before."""

    def gibbs(self, w: Any, scales: Any, generator: Any = None) -> Any:
        fresh = super().gibbs(w, scales, generator)
        return fresh._replace(xi=self._draw_xi(scales.T, scales, generator))


class SharedPsi(GroupR2D2):
    """psi drawn once for a group."""

    def _draw_psi(self, square: Any, t: Any, generator: Any) -> Any:
        return super()._draw_psi(square, t, generator)[:, :1].expand_as(square).clone()


@pytest.mark.parametrize("fault", [PerWeight, HalvedChi, PerWeightRate, StaleXi, SharedPsi])
def test_planted_faults_are_rejected(fault: Any) -> None:
    assert geweke(fault(1.0, 1.0), layer=(3, 2), seed=1).p_value < REJECT


def test_a_group_horseshoe_that_counts_the_weights_of_the_layer_is_rejected() -> None:
    def wrong(shape: float, rate: Any, generator: Any) -> Any:
        return original(shape + 0.5 if rate[0].numel() == 2 and shape != 0.5 else shape, rate, generator)

    original = half_cauchy_product.draw_inverse_gamma
    prior = GroupHorseshoe()
    with patch.object(half_cauchy_product, "draw_inverse_gamma", wrong):
        assert geweke(prior, layer=(3, 2), seed=1, sweeps=2, chains=10_000).p_value < REJECT


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_coordinate_ascent_of_groups_never_lowers_the_bound(prior: Any) -> None:
    m = 10 ** torch.linspace(-8, 2, 24, dtype=torch.float64).view(4, 3, 2)
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(0), dtype=m.dtype)
    bounds = bounds_over_sweeps(prior, m, scales, 40)
    assert all(after >= before - 1e-11 * abs(before) for before, after in pairwise(bounds))


def test_the_bound_is_that_of_the_joint_density() -> None:
    """E log p(w, s) - E log q(s) by draws from q(s), for two groups of two weights."""
    prior = GroupR2D2(0.4, 0.8, 1.3)
    w = torch.tensor([[0.3, 2.0], [-0.1, 0.7]], dtype=torch.float64)
    scales = prior.init_scales(w.shape, torch.Generator().manual_seed(0), dtype=w.dtype)
    for _ in range(30):
        factors = prior.cavi(w.square(), scales)
        scales = factors.scales
    generator, n = torch.Generator().manual_seed(1), 200_000
    t = factors.T.sample((n,), generator)
    psi = factors.psi.sample((n,), generator)
    xi = torch.distributions.Gamma(factors.xi.concentration.expand(n), factors.xi.rate.expand(n))
    rate = torch._standard_gamma(xi.concentration, generator) / xi.rate
    v = prior.sigma0**2 / 2 * psi * t
    log_joint = torch.distributions.Normal(0.0, v.sqrt()).log_prob(w).sum((1, 2))
    log_joint += (torch.distributions.Exponential(0.5).log_prob(psi)).sum((1, 2))
    log_joint += torch.distributions.Gamma(0.4, rate[:, None, None]).log_prob(t).sum((1, 2))
    log_joint += torch.distributions.Gamma(0.8, torch.ones(1, dtype=torch.float64)).log_prob(rate)
    entropy = factors.T.entropy().sum() + factors.psi.entropy().sum() + factors.xi.entropy().sum()
    error = float(log_joint.std() / n**0.5)
    assert abs(float(log_joint.mean() + entropy - factors.bound(w.square()))) < 6 * error  # 2e-9


@pytest.mark.parametrize(
    ("shape", "shared", "groups", "expected"),
    [
        ((5, 3), (), "inputs", (1, 3)),
        ((5, 3), (), "outputs", (5, 1)),
        ((5, 3), (), "filters", (1, 3)),
        ((5, 3, 2, 2), (), "inputs", (1, 3, 1, 1)),
        ((5, 3, 2, 2), (), "filters", (5, 1, 1, 1)),
        ((4,), (), "inputs", (4,)),
        ((4,), (), "outputs", (1,)),
        ((), (), "outputs", ()),
        ((7, 5, 3), (7, 1, 1), "outputs", (7, 5, 1)),
        ((1, 5, 3), (1, 1, 1), "outputs", (1, 5, 1)),
        ((4, 3), (1, 3), "outputs", (1, 3)),
        ((4, 3), (1, 3), "inputs", (4, 3)),
    ],
)
def test_shapes_of_groups(shape: Any, shared: Any, groups: Any, expected: Any) -> None:
    assert shape_of_groups(shape, shared, groups) == expected


def test_groups_of_one_weight_are_the_priors_of_single_weights() -> None:
    w = torch.randn(6, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    point = torch.linspace(0.01, 3, 5, dtype=torch.float64)
    assert torch.equal(GroupR2D2(0.2, 0.7).log_prob(point), R2D2(0.2, 0.7).log_prob(point))
    torch.testing.assert_close(GroupHorseshoe(0.5, 0.6, 0.3).log_prob(point), HorseshoePlus(0.3, 0.3).log_prob(point))
    group, single = GroupR2D2(0.2, 0.7, groups="outputs"), R2D2(0.2, 0.7)
    start = single.init_scales(w.shape, torch.Generator().manual_seed(1), dtype=w.dtype)
    own = group_r2d2.GroupR2D2Scales(start.T, start.psi, start.xi)
    torch.testing.assert_close(group.cavi(w.square(), own).precision, single.cavi(w.square(), start).precision)


def test_inputs_without_effect_go_as_a_whole() -> None:
    """Of ten inputs two count: their groups keep their variance, the others lose it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 10, generator=generator)
    y = torch.tanh(x[:, 0]) + x[:, 1] + 0.1 * torch.randn(300, generator=generator)
    net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    model = rn.BayesianModel(net, GroupR2D2(groups="inputs"))
    for algorithm in ("cavi", "svgi"):
        posterior = rn.fit(model, (x, y), algorithm, epochs=60, verbose=False)
        t = posterior.state.scales["0.weight"].T
        assert t.shape == (1, 10)
        assert float(t[0, :2].min()) > 10 * float(t[0, 2:].max())


def test_unknown_groups_are_refused() -> None:
    for kind in (GroupR2D2, GroupHorseshoe):
        with pytest.raises(ParameterError, match="groups='units' is out of range: use one of 'inputs'"):
            kind(groups="units")
