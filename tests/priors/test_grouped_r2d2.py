"""R2D2 for groups of inputs: the law of each group's R2, exact sweeps, coordinate ascent, fits, and bad groups."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from scipy import stats
from torch import nn

import linear_gibbs_proofs
import r2d2net as rn
from r2d2net import ParameterError
from r2d2net.priors import R2D2, Gaussian
from r2d2net.priors.base import Factors
from r2d2net.priors.grouped_r2d2 import GroupedR2D2
from r2d2net.priors.r2d2 import R2D2Scales
from r2d2net.testing import geweke
from r2d2net.testing.prior import check_saving
from r2d2net.testing.scale_density import check_unconstrained

REJECT = 2e-6
GROUPS = {"a": [0, 3], "b": [1, 2, 4]}
PRIOR = R2D2.from_r2({"a": 0.2, "b": 0.5}, 3.0, {"a": 0.8, "b": 0.6}, groups=GROUPS)
LAYERS = 4000


def shares(prior: Any = PRIOR, layers: int = LAYERS) -> tuple[dict[str, Any], Any]:
    """R2 of each group and of all inputs, of many layers."""
    scales = prior.init_scales((layers, 5), torch.Generator().manual_seed(0), groups=(layers, 1), dtype=torch.float64)
    whole = 1 + scales.T.sum(1)
    return {name: (scales.T[:, own].sum(1) / whole).numpy() for name, own in GROUPS.items()}, (1 - 1 / whole).numpy()


def p_values(prior: Any = PRIOR) -> list[float]:
    """Kolmogorov-Smirnov of R2 of each group, and of all, against the beta laws that are promised."""
    each, total = shares(prior)
    laws = {"a": stats.beta(0.6, 2.4), "b": stats.beta(1.5, 1.5)}
    found = [stats.kstest(each[name], law.cdf).pvalue for name, law in laws.items()]
    return [*found, stats.kstest(total, stats.beta(2.1, 0.9).cdf).pvalue]


def test_each_group_has_the_promised_r2() -> None:
    """Three tests at 4,000 draws; false-alarm rate 3e-6 in all."""
    assert min(p_values()) > 1e-6
    assert PRIOR.r2_shapes == pytest.approx((2.1, 0.9))


def test_shares_of_groups_are_dirichlet() -> None:
    """Jointly: R2_a / R2 is beta and independent of R2; false-alarm rate 2e-6."""
    each, total = shares()
    ratio = each["a"] / total
    assert stats.kstest(ratio, stats.beta(0.6, 1.5).cdf).pvalue > 1e-6
    assert stats.spearmanr(ratio, total).pvalue > 1e-6


@pytest.mark.parametrize("fault", ["weights", "rate", "own xi"])
def test_faults_in_the_law_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong weights of the groups, xi with the wrong shape, and a xi of its own for each group."""
    prior = R2D2.from_r2({"a": 0.2, "b": 0.5}, 3.0, {"a": 0.8, "b": 0.6}, groups=GROUPS)
    if fault == "weights":
        prior.parts = tuple(part._replace(total=1.05) for part in prior.parts)
        monkeypatch.setattr(R2D2, "_excess", lambda self, count: count * self.a_pi - 1.05)
    elif fault == "rate":
        prior._b = 1.4
    else:
        draw = prior.init_scales

        def apart(*arguments: Any, **options: Any) -> R2D2Scales:
            one, two = draw(*arguments, **options), draw(*arguments, **options)
            places = torch.tensor(GROUPS["b"])
            return one._replace(T=one.T.index_copy(-1, places, two.T[..., places]))

        monkeypatch.setattr(prior, "init_scales", apart)
    assert min(p_values(prior)) < 1e-9


def test_one_group_is_the_prior_without_groups() -> None:
    one, plain = R2D2.from_r2(0.4, 3.0, 0.8, groups={"all": range(5)}), R2D2.from_r2(0.4, 3.0, 0.8)
    assert one.r2_shapes == pytest.approx(plain.r2_shapes)
    generator = torch.Generator().manual_seed(1)
    w, scales = torch.randn(3, 5, generator=generator).double(), one.init_scales((3, 5), generator, dtype=torch.float64)
    factors, alone = one.cavi(w.square(), scales), plain.cavi(w.square(), scales._replace(rate=scales.rate[0, 0]))
    torch.testing.assert_close(factors.precision, alone.precision)
    torch.testing.assert_close(factors.bound(w.square()), alone.bound(w.square()))
    torch.testing.assert_close(one.log_prob(w), plain.log_prob(w))


def test_sweeps_leave_the_joint_law_unchanged() -> None:
    """Forwards and backwards; false-alarm rate 4e-6."""
    assert geweke(PRIOR, seed=5, chains=10_000).p_value > REJECT

    class Backwards(GroupedR2D2):
        def gibbs(self, *arguments: Any) -> R2D2Scales:
            return self.gibbs_reversed(*arguments)

    assert geweke(Backwards(**PRIOR.hyperparameters()), seed=6, chains=10_000).p_value > REJECT


def test_a_wrong_conditional_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """eta_g given W of all groups in place of W_g, the Jacobian of another parametrisation."""
    right = GroupedR2D2._rate_conditionals

    def wrong(self: GroupedR2D2, t: Any, xi: Any) -> Any:
        return right(self, [torch.cat(list(t), -1)] * len(t), xi)

    monkeypatch.setattr(GroupedR2D2, "_rate_conditionals", wrong)
    assert geweke(PRIOR, seed=5, chains=10_000).p_value < 1e-9


def test_unconstrained_scales_have_the_density_of_the_draws() -> None:
    """False-alarm rates of `check_unconstrained`."""
    groups = {"a": [0, 2], "b": [1]}
    check_unconstrained(R2D2.from_r2({"a": 0.3, "b": 0.1}, 2.0, 0.9, groups=groups))


def test_coordinate_ascent_never_lowers_the_bound() -> None:
    generator = torch.Generator().manual_seed(1)
    w = PRIOR.sample((3, 5), generator, dtype=torch.float64)
    scales, bounds = PRIOR.init_scales((3, 5), generator, dtype=torch.float64), []
    for _ in range(30):
        factors = PRIOR.cavi(w.square(), scales)
        scales = factors.scales
        bounds.append(float(factors.bound(w.square())))
    assert all(after > before - 1e-9 for before, after in pairwise(bounds))
    torch.testing.assert_close(Factors.bound(factors, w.square()), factors.bound(w.square()))


def test_shapes_and_saving() -> None:
    check_saving(R2D2.from_r2({"a": 0.2, "b": 0.5}, 3.0, 0.8, groups=GROUPS))
    assert repr(PRIOR) == "GroupedR2D2(a: 2 inputs, mean R2 0.2; b: 3 inputs, mean R2 0.5; precision 3)"
    for shape, groups in (((4, 5), ()), ((4, 5), (4, 1)), ((2, 3, 5), (2, 1, 1)), ((5,), ())):
        scales = PRIOR.init_scales(shape, groups=groups, dtype=torch.float32)
        drawn = PRIOR.gibbs(torch.ones(shape), scales)
        assert PRIOR.variance(drawn).shape == shape
        assert drawn.xi.shape == groups
        assert PRIOR.log_variance(PRIOR.unconstrained(scales)).shape == shape
    with pytest.raises(ParameterError, match="let the last dimension be 1"):
        PRIOR.init_scales((4, 5), groups=(1, 5))


# --- in models


def test_a_network_has_groups_where_the_inputs_are() -> None:
    model = rn.BayesianModel(rn.nets.mlp(5, [4], 1, linear=True), PRIOR)
    priors = {slot.name: type(slot.prior).__name__ for slot in model.bayesian if len(slot.shape) == 2}
    assert priors == {"linear.weight": "GroupedR2D2", "net.0.weight": "GroupedR2D2", "net.2.weight": "R2D2"}
    again = rn.BayesianModel(rn.nets.mlp(5, [4], 1), Gaussian()).with_prior(PRIOR)
    assert [type(slot.prior).__name__ for slot in again.bayesian if len(slot.shape) == 2] == ["GroupedR2D2", "R2D2"]


def test_exact_sweeps_of_a_linear_layer() -> None:
    """The exact sampler's sweep leaves the joint law unchanged; false-alarm rate 1e-3 (p-values are conservative)."""
    hyper = linear_gibbs_proofs.hyper_of(PRIOR, *PRIOR.r2_shapes)
    z, worst, p_value = linear_gibbs_proofs.geweke(linear_gibbs_proofs.design(6, 5), hyper, chains=3000, sweeps=4)
    assert p_value > 1e-3, (worst, z)


def test_linear_gibbs_takes_r2_from_the_prior() -> None:
    def shapes(prior: Any, **options: Any) -> tuple[float, float]:
        method = rn.inference.LinearGibbs(**options)
        chains = method.build(rn.BayesianModel(nn.Linear(5, 1), prior), n=30, steps=100)
        return chains.targets.hyper.a, chains.targets.hyper.b

    assert shapes(PRIOR) == pytest.approx((2.1, 0.9))
    assert shapes(R2D2.from_r2(0.2, 5.0, 0.5)) == pytest.approx((1.0, 4.0))
    assert shapes(R2D2()) == shapes(Gaussian()) == (1.0, 1.0)
    assert shapes(PRIOR, mean_r2=0.5, precision_r2=4.0) == (2.0, 2.0)


GENES, CLINICAL = 40, 5


def fitted_share(method: Any, *, grouped: bool, epochs: int) -> tuple[float, float]:
    """Share of the squared weights in the clinical group, which alone matters, and error of the function."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, GENES + CLINICAL, generator=generator)
    slopes = torch.zeros(GENES + CLINICAL)
    slopes[GENES:] = torch.tensor([1.0, -0.8, 0.6, 0.5, -0.7])
    y = x @ slopes + torch.randn(60, generator=generator)
    groups = {"genes": range(GENES), "clinical": range(GENES, GENES + CLINICAL)}
    prior: Any = R2D2.from_r2(0.5, 4.0, {"genes": 0.1, "clinical": 1.0}, groups=groups)
    prior = prior if grouped else R2D2.from_r2(0.5, 4.0, 0.2)
    model = rn.BayesianModel(nn.Linear(GENES + CLINICAL, 1), prior)
    posterior = rn.fit(model, (x, y), method, epochs=epochs, seed=1, verbose=False)
    squares = posterior.sample(200, seed=0)[:, : GENES + CLINICAL].square()
    new = torch.randn(1000, GENES + CLINICAL, generator=generator)
    error = (posterior.predict(new).mean - new @ slopes).square().mean().sqrt()
    return float((squares[:, GENES:].sum(1) / squares.sum(1)).mean()), float(error)


@pytest.mark.parametrize(("method", "epochs"), [("svgi", 300), ("lineargibbs", 300)])
@pytest.mark.filterwarnings("ignore")
def test_groups_find_the_one_that_matters(method: str, epochs: int) -> None:
    """Against the prior without groups of the same mean and precision; the seeds are pinned."""
    (share, error), (plain, plain_error) = (fitted_share(method, grouped=g, epochs=epochs) for g in (True, False))
    assert share > plain + 0.03
    assert share > 0.9
    assert error < 0.8 * plain_error


# --- bad arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mean_r2": {"a": 0.2, "b": 0.8}}, "mean_r2 adds up to 1 over the groups"),
        ({"mean_r2": {"a": 0.2}}, "mean_r2 lacks the group 'b'"),
        ({"mean_r2": {"a": 0.2, "b": 0.3, "c": 0.1}}, "mean_r2 names an unknown group, 'c'"),
        ({"mean_r2": 1.2}, r"mean_r2=1\.2 is out of range"),
        ({"mean_r2": {"a": 1.2, "b": 0.1}}, r"mean_r2=1\.2 is out of range"),
        ({"mean_r2": {"a": "much", "b": 0.1}}, "mean_r2='much' is out of range"),
        ({"concentration": {"a": 1.0}}, "concentration lacks the group 'b'"),
        ({"groups": {"a": [0], "b": [0]}}, "groups have the column 0 in 'a' and 'b'"),
        ({"groups": {"a": [0, 0], "b": [1]}}, "groups have the column 0 in 'a' twice"),
        ({"groups": {"a": [0], "b": [2]}}, "groups leave out the input 1"),
        ({"groups": {"a": [], "b": [0]}}, "groups: 'a' has no columns"),
        ({"groups": {"a": "g1", "b": [0]}}, "groups: 'a' is 'g1', no list of columns"),
        ({"groups": {"a": [-1], "b": [0]}}, "groups: 'a' has the column -1"),
        ({"groups": {}}, "groups={} is no mapping"),
        ({"groups": [0, 1]}, r"groups=\[0, 1\] is no mapping"),
        ({"precision_r2": 0}, "precision_r2=0 is out of range"),
    ],
)
def test_bad_groups_are_one_line(arguments: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {"mean_r2": {"a": 0.2, "b": 0.3}, "groups": {"a": [0], "b": [1]}}
    with pytest.raises(ParameterError, match=words) as told:
        R2D2.from_r2(**{**usual, **arguments})
    assert "\n" not in str(told.value)


def test_layers_that_do_not_fit_are_one_line() -> None:
    grouped = R2D2.from_r2(0.4, groups={"a": [0, 1], "b": [2]})
    with pytest.raises(ParameterError, match="groups has groups of 3 inputs, and the layer takes 5: put those"):
        rn.BayesianModel(rn.nets.mlp(5, [4], 1), grouped)
    with pytest.raises(ParameterError, match="groups has groups of 3 inputs, and the layer takes 2: leave out"):
        rn.BayesianModel(rn.nets.mlp(2, [4], 1), grouped)
    with pytest.raises(ParameterError, match=r"'features\.0\.weight' of shape \(6, 3, 5, 5\) does not have"):
        rn.BayesianModel(rn.nets.LeNet(), grouped)
    with pytest.raises(ParameterError, match=r"concentration of 'a' is too small for 2 weights: use more than .* 0\.2"):
        rn.BayesianModel(nn.Linear(3, 1), R2D2.from_r2(0.4, groups={"a": [0, 1], "b": [2]}))
    with pytest.raises(ParameterError, match="groups name the column 'x', and these inputs have no names"):
        rn.BayesianModel(nn.Linear(2, 1), R2D2.from_r2(0.4, groups={"a": ["x"], "b": ["y"]}))
