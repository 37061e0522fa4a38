"""Selection of inputs: uniform p-values of inputs without an effect, planted faults, rules, words and refusals."""

import numpy as np
import pytest
import torch
from scipy import stats

import r2d2net as rn
from r2d2net.shrinkage import conditional_inputs
from r2d2net.shrinkage.conditional_inputs import ConditionalInputs
from r2d2net.shrinkage.randomization_test import LeftOut, randomization_p_values
from r2d2net.shrinkage.selection import false_discovery_rates
from r2d2net.shrinkage.selection_inputs import groups_of, inputs_of

TRUE = [0, 3]


def chain(rows: int, columns: int, correlation: float, seed: int) -> torch.Tensor:
    """Normal columns, each with this correlation to the one before."""
    z = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = z.clone()
    for j in range(1, columns):
        x[:, j] = correlation * x[:, j - 1] + (1 - correlation**2) ** 0.5 * z[:, j]
    return x


def target(x: torch.Tensor, seed: int) -> torch.Tensor:
    noise = torch.randn(len(x), generator=torch.Generator().manual_seed(seed + 1000), dtype=torch.float64)
    return x[:, TRUE[0]] - x[:, TRUE[1]] + noise


@pytest.fixture(scope="module")
def network():
    """A network that was fitted to few rows, so that it also uses inputs that do not matter."""
    x = chain(40, 8, 0.8, seed=99)
    model = rn.BayesianModel(torch.nn.Linear(8, 1), rn.priors.Gaussian())
    return rn.fit(model, (x, target(x, 99)), "lineargibbs", epochs=200, seed=0, verbose=False)


def p_values(network, seed: int, rows: int) -> torch.Tensor:
    """p-values of eight inputs by 80 rows that the network has not seen; their law is estimated from more rows."""
    x = chain(rows, 8, 0.8, seed)
    fold = LeftOut(network, torch.arange(80), torch.ones(8, dtype=torch.bool))
    law = ConditionalInputs(x, [[i] for i in range(8)])
    return randomization_p_values([fold], x, target(x, seed), law, draws=20, resamples=199, seed=seed)


def too_many_small(p: torch.Tensor) -> float:
    """Chance of as many p-values of at most 0.05."""
    return float(stats.binom.sf(int((p <= 0.05).sum()) - 1, p.numel(), 0.05))


def test_inputs_without_an_effect_have_uniform_p_values(network):
    """40 tables, six inputs each, Kolmogorov and Smirnov at a level of 0.001."""
    null = [i for i in range(8) if i not in TRUE]
    p = torch.stack([p_values(network, seed, 600) for seed in range(40)])
    assert stats.kstest(p[:, null].flatten().numpy(), "uniform").pvalue > 0.001
    assert float((p[:, TRUE] <= 0.05).double().mean()) > 0.9


def test_with_a_law_of_the_same_few_rows_they_are_not_too_small(network):
    """Level 0.001; the law is fitted to the very rows it draws for, which makes p-values a little too large."""
    null = [i for i in range(8) if i not in TRUE]
    p = torch.stack([p_values(network, seed, 80) for seed in range(50)])
    assert too_many_small(p[:, null]) > 0.001


def test_draws_that_forget_the_other_inputs_are_seen(network, monkeypatch):
    """Planted fault: an input's own law in place of that given the others makes correlated inputs look important."""

    def marginal(self, i, count, generator):
        order = torch.rand(count, len(self.x), generator=generator).argsort(1)
        return self.x[:, self.inputs[i]][order]

    monkeypatch.setattr(conditional_inputs.ConditionalInputs, "draw", marginal)
    null = [i for i in range(8) if i not in TRUE]
    p = torch.stack([p_values(network, seed, 80) for seed in range(50)])
    assert too_many_small(p[:, null]) < 1e-6


def test_false_discovery_rates_by_scipy():
    p = torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 2
    np.testing.assert_allclose(false_discovery_rates(p).numpy(), stats.false_discovery_control(p.numpy()))


ENOUGH = rn.inference.LinearGibbs(chains=1, loo_draws=0)
pytestmark = pytest.mark.filterwarnings("ignore:the chains disagree")  # of short runs, whose p-values are as valid


def fitted(x, y, seed=0):
    model = rn.BayesianModel(torch.nn.Linear(x.shape[1], 1), rn.priors.R2D2.adaptive())
    return rn.fit(model, (x.float(), y.float()), ENOUGH, epochs=100, seed=seed, verbose=False)


def test_inputs_with_an_effect_are_selected():
    x = chain(100, 10, 0.3, seed=0)
    y = target(x, 0)
    asked = {"method": "randomization", "folds": 3, "resamples": 499}
    selection, again = (rn.shrinkage.select(fitted(x, y), x, y.float(), **asked) for _ in range(2))
    assert selection.indices == TRUE
    assert selection.line == "selected 2 of 10 inputs: of such selections at most about 10% are false on average"
    assert torch.equal(selection.p_value, again.p_value)


def test_noise_selects_nothing_and_says_so():
    x = chain(60, 10, 0.3, seed=1)
    y = torch.randn(60, generator=torch.Generator().manual_seed(2))
    selection = rn.shrinkage.select(fitted(x, y), x, y, method="randomization", folds=3, resamples=199)
    assert selection.indices == []
    assert selection.line == "no input can be selected at a false discovery rate of 0.1 with these 60 rows"


def test_twins_are_selected_together():
    x = chain(100, 6, 0.0, seed=3)
    x[:, 5] = x[:, 0] + 0.1 * x[:, 5]
    y = target(x, 3)
    selection = rn.shrinkage.select(fitted(x, y), x, y.float(), method="randomization", folds=3, resamples=499)
    assert selection.indices == [0, 3, 5]
    assert selection.group.tolist() == [0, 1, 2, 3, 4, 0]
    assert selection.line.startswith("selected 2 of 5 groups of inputs")


def test_a_category_is_one_input_and_classes_are_targets():
    number = chain(150, 3, 0.0, seed=4)
    codes = torch.randint(3, (150,), generator=torch.Generator().manual_seed(5))
    x = torch.cat([number, torch.nn.functional.one_hot(codes, 3).double()], 1)
    chance = torch.rand(150, generator=torch.Generator().manual_seed(6))
    y = (chance < torch.tensor([0.1, 0.5, 0.95])[codes]).long()
    likelihood = rn.likelihoods.Categorical()
    model = rn.BayesianModel(rn.nets.mlp(6, [8], 2), likelihood=likelihood)
    posterior = rn.fit(model, (x.float(), y), epochs=60, seed=0, verbose=False)
    groups = [[0], [1], [2], [3, 4, 5]]
    assert rn.shrinkage.select(posterior, x, y, groups=groups, resamples=999, folds=3).indices == [3]


def test_rows_that_were_left_out_need_no_other_fit():
    x = chain(300, 5, 0.0, seed=7)
    y = target(x, 7)
    posterior = fitted(x[:150], y[:150])

    def refuse(x, y):
        raise AssertionError

    selection = rn.shrinkage.select(posterior, x[150:], y[150:].float(), folds="left out", refit=refuse, resamples=999)
    assert selection.indices == TRUE


def test_groups_of_correlated_inputs():
    x = chain(400, 4, 0.0, seed=8)
    x[:, 2] = -x[:, 1]
    assert groups_of(x, inputs_of(None, 4), 0.9).tolist() == [0, 1, 1, 2]
    assert groups_of(x, inputs_of(None, 4), None).tolist() == [0, 1, 2, 3]
    assert groups_of(x, [[0], [1, 3], [2]], 0.9).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fdr": 1.0}, "fdr=1.0 is out of range: use a share strictly between 0 and 1, such as 0.1"),
        ({"fdr": 0}, "fdr=0 is out of range: use a share strictly between 0 and 1, such as 0.1"),
        ({"groups": [[0, 1], [1]]}, "groups=[[0, 1], [1]] is out of range: let each column belong to one input only"),
        ({"groups": []}, "groups=[] is out of range: use lists of columns from 0 to 7, none of them empty"),
        ({"fdr": "x"}, "fdr='x' is out of range: use a share strictly between 0 and 1, such as 0.1"),
        ({"folds": 1}, "folds=1 is out of range: use a whole number from 2"),
        ({"folds": "none"}, "folds='none' is out of range: use a number of folds, or 'left out'"),
        ({"correlated": "a"}, "correlated='a' is out of range: use a correlation above 0 and at most 1, or None"),
        ({"correlated": 2.0}, "correlated=2.0 is out of range: use a correlation above 0 and at most 1, or None"),
    ],
)
def test_arguments_out_of_range(network, arguments, message):
    x = chain(40, 8, 0.0, seed=9)
    with pytest.raises(rn.ParameterError) as error:
        rn.shrinkage.select(network, x, target(x, 9), **arguments)
    assert str(error.value) == message


def test_rows_that_cannot_be_tested(network):
    x = chain(7, 8, 0.0, seed=9)
    with pytest.raises(rn.DataError, match=r"^x has 7 rows: a test takes 8 or more$"):
        rn.shrinkage.select(network, x, target(x, 9))
    with pytest.raises(rn.DataError, match=r"^x has 7 rows and y has 3: they must agree$"):
        rn.shrinkage.select(network, x, torch.zeros(3))
    with pytest.raises(rn.DataError, match=r"^x holds a number that is not finite: fill in missing cells$"):
        rn.shrinkage.select(network, torch.full((30, 8), torch.nan), torch.zeros(30))
    x = chain(30, 8, 0.0, seed=9)
    with pytest.raises(rn.DataError, match=r"^y holds a number that is not finite: leave out rows without a target$"):
        rn.shrinkage.select(network, x, x[:, 0].log())
    with pytest.raises(rn.DataError, match=r"^y holds a single value: give targets that differ between rows$"):
        rn.shrinkage.select(network, x, torch.zeros(30))


@pytest.mark.parametrize(
    ("y", "line"),
    [
        (["a"] * 30, "y of type list is no array of numbers: give numbers, or classes numbered from 0"),
        (np.array(["a"] * 30), "y of type ndarray is no array of numbers: give numbers, or classes numbered from 0"),
        (torch.ones(30).long(), "y holds a single value: give targets that differ between rows"),
        (torch.zeros(30, 0), "y has no columns: give one or more"),
        (torch.arange(30) % 4, "y has 4 different values: the method 'terms' takes one column of ten or more; give a "),
        (chain(30, 2, 0.0, seed=1), "y has 2 columns: the method 'terms' takes one column of ten or more; give a "),
    ],
)
def test_targets_that_cannot_be_tested_without_a_posterior(y, line):
    with pytest.raises(rn.DataError) as error:
        rn.shrinkage.select(None, chain(30, 8, 0.0, seed=9), y)
    assert str(error.value).startswith(line)
