"""What priors imply before any data: R2, effective inputs and predictions, against closed forms."""

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from scipy import stats
from torch import nn

import elicit_figure
import r2d2net as rn
from r2d2net import DataError, ParameterError
from r2d2net.likelihoods.student_t import HeavyTailed
from r2d2net.prediction import Counts, Regression
from r2d2net.prior_networks import replicate
from r2d2net.priors import R2D2, Gaussian, GeneralizedDoublePareto, Horseshoe, SpikeSlab, elicit
from r2d2net.priors.elicitation import linear_implied, participation
from r2d2net.registry import PRIORS
from table_runs import command

mpl.use("Agg")


def test_r2_of_a_normal_prior() -> None:
    """sum w_j^2 ~ scale^2 chi2_p, and all inputs count; false-alarm rate 1e-6."""
    (found,) = elicit(Gaussian(0.3), inputs=7, noise=0.8).implied
    odds = (found.r2 / (1 - found.r2)).numpy()
    assert stats.kstest(odds * (0.8 / 0.3) ** 2, stats.chi2(7).cdf).pvalue > 1e-6
    assert stats.kstest(odds * (0.8 / 0.3) ** 2, stats.chi2(6).cdf).pvalue < 1e-9  # a wrong number of inputs
    assert found.effective is not None
    torch.testing.assert_close(found.effective, torch.full((4000,), 7.0, dtype=torch.float64))


def test_effective_inputs_of_spikes_and_slabs() -> None:
    """A slab far above its spike: as many inputs as slabs, a binomial number; false-alarm rate 1e-6."""
    (found,) = elicit(SpikeSlab(0.4, 1.0, 1e-6), inputs=12).implied
    assert found.effective is not None
    slabs = found.effective.round()
    some = slabs[found.effective > 1.5]  # without a slab all spikes count
    shares = [float(((slabs == k) & (found.effective > 1.5)).double().mean()) for k in range(2, 12)]
    expected = stats.binom(12, 0.4).pmf(range(2, 12))
    assert len(some) > 3000
    assert max(abs(a - b) / math.sqrt(b / 4000) for a, b in zip(shares, expected, strict=True)) < 5.5


def test_effective_inputs_of_r2d2() -> None:
    """E 1 / m_eff = E sum_j share_j^2, shares of independent products T_j psi_j, by draws of gammas and exponentials.

    Each is a mean of 4,000 draws, compared at five standard errors: false-alarm rate 6e-7.
    """
    found = linear_implied("", R2D2.from_r2(0.4, 3.0, 0.3), 15, None, 4000, 1)
    t = stats.gamma(0.3).rvs((4000, 15), random_state=2) * stats.expon().rvs((4000, 15), random_state=3)
    expected = torch.from_numpy((t**2).sum(1) / t.sum(1) ** 2)
    assert found.effective is not None
    difference = (1 / found.effective - expected).mean()
    assert abs(float(difference)) < 5 * math.sqrt((float(expected.var()) + float((1 / found.effective).var())) / 4000)


def test_stated_law_is_that_of_the_expected_variance() -> None:
    found = elicit({"r2": 0.3, "plain": R2D2(), "groups": R2D2.from_r2(0.3, groups={"a": range(5)})}, inputs=5)
    assert [own.stated for own in found.implied] == [pytest.approx((0.6, 1.4)), None, pytest.approx((0.6, 1.4))]
    assert elicit(0.5, likelihood="bernoulli", inputs=9).implied[0].stated == (1.0, 1.0)
    assert (
        elicit(R2D2.from_r2(), likelihood="bernoulli", inputs=9).implied[0].stated is None
    )  # in units of another noise
    assert elicit(0.5, likelihood="categorical", classes=3, inputs=9).implied[0].stated == (1.0, 1.0)


def test_rows_and_no_rows_agree() -> None:
    """Var f over many rows of independent inputs is sum w_j^2: two samples, false-alarm rate 1e-6."""
    x = torch.randn(3000, 4, generator=torch.Generator().manual_seed(0))
    (drawn,) = elicit(Gaussian(0.5), x=x, draws=1000).implied
    (exact,) = elicit(Gaussian(0.5), inputs=4, seed=1).implied
    assert stats.ks_2samp(drawn.r2.numpy(), exact.r2.numpy()).pvalue > 1e-6
    assert drawn.effective is not None
    assert float(drawn.effective.min()) == pytest.approx(4.0)


def test_predictions_of_a_linear_model() -> None:
    """The share beyond the largest |y| in closed form, to 0.03: four standard errors of 4,000 draws, or more."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=generator)
    y = 3 + 2 * x[:, 0] + torch.randn(30, generator=generator)
    found = elicit({"narrow": Gaussian(0.1), "wide": Gaussian(2.0)}, x=x, y=y, noise=0.5, draws=4000)
    standard = (x - x.mean(0)) / x.std(0, correction=0)
    for name, scale in (("narrow", 0.1), ("wide", 2.0)):
        deviation = y.std(correction=0) * (0.25 + 1 + scale**2 * standard.square().sum(1)).sqrt()  # biases are N(0, 1)
        law = stats.norm(float(y.mean()), deviation.numpy())
        largest = float(y.abs().max())
        assert found.beyond()[name] == pytest.approx(float((law.cdf(-largest) + law.sf(largest)).mean()), abs=0.03)
    assert found.beyond()["wide"] > found.beyond()["narrow"] + 0.1
    assert repr(found).count("of its mass beyond the largest |y|") == 2


def test_models_have_a_prior_for_each_layer() -> None:
    net = rn.nets.mlp(3, [5], 1)
    model = rn.BayesianModel(net, {"0.weight": Gaussian(0.1), "2.weight": Gaussian(0.2)}, bias=Gaussian(0.1))
    alone = elicit(model, draws=50).implied[0]
    both = elicit({"layered": model, "wide": Gaussian(3.0)}, draws=50)
    assert torch.equal(both.implied[0].r2, alone.r2)
    assert float(both.implied[1].r2.mean()) > float(alone.r2.mean()) + 0.5
    assert model.net.get_parameter("0.weight").requires_grad is False


@pytest.mark.parametrize("name", [name for name in PRIORS if name not in ("paper", "gaussian")])
def test_every_prior_in_a_network(name: str) -> None:
    net = rn.nets.mlp(3, [5], 1)
    (found,) = elicit(PRIORS.constructor(name)(), net=net, draws=50).implied
    assert bool(((found.r2 >= 0) & (found.r2 <= 1)).all())
    assert found.effective is not None
    assert bool(((found.effective >= 1 - 1e-9) & (found.effective <= 3 + 1e-9)).all())
    assert found.targets is not None
    assert found.targets.shape == (50, 200, 1)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        ("poisson", [0.0, 3.0]),
        ("negative-binomial", [0.0, 3.0]),
        ("student-t", [0.0, 1.5]),
        ("heteroscedastic", [0.0, 1.5]),
        ("log-normal", [0.5, 1.5]),
        ("gamma", [0.5, 1.5]),
        ("bernoulli", [0, 1]),
        ("categorical", [0, 1, 2]),
        (rn.likelihoods.Ordinal(3), [0, 1, 2]),
    ],
)
def test_every_likelihood(likelihood: Any, y: list[float]) -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor(y * (12 // len(y)))
    found = elicit(Gaussian(0.5), x=x, y=targets, likelihood=likelihood, draws=40)
    (own,) = found.implied
    assert own.targets is not None
    assert bool(((own.r2 >= 0) & (own.r2 <= 1)).all())
    if found.y is None:
        assert bool(((own.targets >= 0) & (own.targets <= 1)).all())
        assert found.beyond() == {}
    if likelihood in ("poisson", "negative-binomial"):
        assert bool((own.targets == own.targets.round()).all())
    assert len(found.plot().axes) == 3


def test_replicates_have_the_law_of_the_prediction() -> None:
    """Probability integral transform of one prediction of each kind, false-alarm rate 1e-6 each."""
    centre = torch.full((4000, 1), 2.0, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    for prediction in (Regression(centre, 0.5 * one), HeavyTailed(centre, 0.5 * one, 4 * one), Counts(centre)):
        new = replicate(prediction, torch.Generator().manual_seed(0))
        assert new is not None
        assert stats.kstest(_cdf(prediction, new).numpy(), "uniform").pvalue > 1e-6


def _cdf(prediction: Any, new: torch.Tensor) -> torch.Tensor:
    """Of new targets, at a random place within its step for counts."""
    if type(prediction).__name__ == "Regression":
        return torch.from_numpy(stats.norm(2, math.sqrt(0.5)).cdf(new[:, 0].numpy()))
    if type(prediction).__name__ == "HeavyTailed":
        return torch.from_numpy(stats.t(4, 2, 0.5).cdf(new[:, 0].numpy()))
    law, counts = stats.poisson(2), new[:, 0].numpy()
    u = torch.rand(len(counts), dtype=torch.float64, generator=torch.Generator().manual_seed(1)).numpy()
    return torch.from_numpy(law.cdf(counts) - u * law.pmf(counts))


def test_views() -> None:
    found = elicit({"R2D2": R2D2(), "GDP": GeneralizedDoublePareto()}, inputs=6, draws=200)
    table = found.summary()
    assert list(table.columns) == ["mean", "5%", "25%", "50%", "75%", "95%"]
    assert set(table.index) == {(p, q) for p in ("R2D2", "GDP") for q in ("R2", "effective inputs")}
    assert "<table>" in found._repr_html_()
    figure = found.plot()
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "R2, the share that the inputs explain",
        "effective number of the 6 inputs",
    ]
    x = torch.linspace(-1, 1, 20)[:, None]
    curves = elicit(Horseshoe(), net=rn.nets.mlp(1, [8], 1), x=x, y=x[:, 0], draws=30).plot()
    assert [axes.get_ylabel() for axes in curves.axes] == ["prior density", "functions drawn from the prior"]
    assert float(participation(torch.tensor([1e300, 1e300], dtype=torch.float64))) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "inputs is missing: give inputs=20, say, or x"),
        ({"inputs": 0}, "inputs=0 is out of range"),
        ({"inputs": 3}, r"concentration=0\.2 is too small for a layer of 3 weights"),
        ({"prior": 1.5, "inputs": 9}, r"mean_r2=1\.5 is out of range"),
        ({"prior": "horseshoe", "inputs": 9}, "prior='horseshoe' is no prior"),
        ({"prior": {}, "inputs": 9}, "prior={} is out of range"),
        ({"inputs": 9, "draws": 1}, "draws=1 is out of range"),
        ({"inputs": 9, "noise": -1}, "noise=-1 is out of range"),
        ({"inputs": 9, "noise": 1.0, "likelihood": "bernoulli"}, "noise=1.0 is not for bernoulli targets"),
        ({"inputs": 9, "likelihood": "poisson"}, "mean_count is missing"),
        ({"inputs": 9, "y": torch.ones(3)}, "y needs the rows of its targets: give x"),
        ({"inputs": 9, "x": torch.ones(3, 9)}, "inputs=9 is for a linear model without rows"),
        ({"net": nn.Conv2d(1, 1, 3)}, "x is missing"),
        ({"x": torch.ones(3, 9), "likelihood": "ordinal"}, "likelihood='ordinal' needs arguments"),
    ],
)
def test_bad_arguments_are_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words) as told:
        elicit(**arguments)
    assert "\n" not in str(told.value)


def test_bad_rows_are_one_line() -> None:
    x = torch.ones(3, 9)
    with pytest.raises(DataError, match="y has 2 rows"):
        elicit(x=x, y=torch.ones(2))
    with pytest.raises(DataError, match="x is no table"):
        elicit(x=torch.ones(3, 1, 2))
    with pytest.raises(DataError, match="net does not take x of shape"):
        elicit(R2D2(), net=nn.Linear(4, 1), x=x)


def test_the_page_has_the_lines_of_the_figure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "priors.md").read_text(encoding="utf-8")
    assert repr(elicit_figure.elicited()) in page


def test_command(tmp_path: Any) -> None:
    figure = tmp_path / "prior.png"
    done = command("elicit", "--mean-r2", 0.3, "--precision-r2", 5, "--prior", "horseshoe", "--plot", figure)
    assert done.code == 0, done.error
    assert done.out.startswith("mean R2 0.3: R2 0.")
    assert "horseshoe: R2 0.9" in done.out
    assert figure.stat().st_size > 5000
    rows = command("elicit", "--prior", "gaussian", "--inputs", 8, "--json").json
    assert [(row["prior"], row["quantity"]) for row in rows] == [("gaussian", "R2"), ("gaussian", "effective inputs")]
    assert rows[1]["50%"] == pytest.approx(8)
    for arguments, words in (
        (("--mean-r2", 2), "--mean-r2 2.0 is out of range"),
        (("--prior", "flat"), "--prior flat is no prior"),
        (("--prior", "gaussian", "--concentration", 1), "--concentration 1.0 is about a prior of R2"),
        (("--likelihood", "poisson"), "--mean-count is missing"),
        (("--plot", tmp_path / "prior.xyz"), "has a format that is not known"),
    ):
        done = command("elicit", *arguments)
        assert done.code == 2
        assert done.error.startswith("error: ")
        assert words in done.error
        assert done.error.count("\n") == 1
