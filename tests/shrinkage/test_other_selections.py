"""Selection by local rates and by knockoffs: moments, thresholds, planted faults, errors held, refusals."""

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.shrinkage.knockoffs import knockoff_rates, knockoffs, statistics
from r2d2net.shrinkage.local_rates import cumulative_rates, local_rates

pytestmark = pytest.mark.filterwarnings("ignore:the chains disagree")  # short chains are enough here


def table(rows: int, columns: int, correlation: float, seed: int) -> torch.Tensor:
    z = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = z.clone()
    for j in range(1, columns):
        x[:, j] = correlation * x[:, j - 1] + (1 - correlation**2) ** 0.5 * z[:, j]
    return x


def linear(x, y, algorithm="lineargibbs", **arguments):
    model = rn.BayesianModel(torch.nn.Linear(x.shape[1], 1), rn.priors.R2D2.adaptive())
    return rn.fit(model, (x.float(), y.float()), algorithm, seed=0, verbose=False, **arguments)


def target(x, true, seed):
    noise = torch.randn(len(x), generator=torch.Generator().manual_seed(seed + 99), dtype=torch.float64)
    return x[:, true].sum(1) + noise


def test_knockoffs_have_the_moments_of_the_table():
    """Covariances of 8,000 rows within five standard errors of 0.011."""
    x = table(8_000, 6, 0.7, 0)
    inputs = [[0], [1, 2], [3], [4], [5]]
    both = torch.cat([x, knockoffs(x, inputs, seed=1)], 1)
    covariance = np.cov(both.T.numpy())
    own, twins, cross = covariance[:6, :6], covariance[6:, 6:], covariance[:6, 6:]
    assert np.abs(own - twins).max() < 0.056
    same = np.zeros((6, 6), dtype=bool)
    for group in inputs:
        same[np.ix_(group, group)] = True
    assert np.abs((own - cross)[~same]).max() < 0.056
    assert np.diag(cross).max() < 0.97


def test_twins_that_forget_the_other_columns_are_seen():
    """Planted fault: shuffled rows have the moments of each column, and not those between columns and twins."""
    x = table(8_000, 6, 0.7, 0)
    cross = np.cov(torch.cat([x, x[torch.randperm(8_000)]], 1).T.numpy())[:6, 6:]
    assert np.abs((np.cov(x.T.numpy()) - cross)[~np.eye(6, dtype=bool)]).max() > 0.5


def test_knockoff_rates_are_those_of_the_rule():
    w = torch.randn(40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    w[:12] = w[:12].abs() + 1.5
    q = knockoff_rates(w)
    for fdr in (0.05, 0.1, 0.2, 0.4):
        chosen = torch.zeros(40, dtype=torch.bool)
        for t in sorted(w.abs().tolist()):
            if (1 + int((w <= -t).sum())) / max(1, int((w >= t).sum())) <= fdr:
                chosen = w >= t
                break
        assert torch.equal(q <= fdr, chosen)
    assert knockoff_rates(-torch.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_signs_of_null_statistics_are_those_of_a_coin():
    """Six tables, 16 null inputs each: more than 62 or fewer than 34 positive of 96 have a chance below 0.006."""
    positive = 0
    for seed in range(6):
        x = table(80, 18, 0.5, seed)
        y = target(x, [0, 1], seed)
        both = torch.cat([x, knockoffs(x, [[i] for i in range(18)], seed)], 1)
        w = statistics([linear(both, y, epochs=60)], both, [[i] for i in range(18)], seed)
        assert (w[:2] > 0).all()
        positive += int((w[2:] > 0).sum())
    assert 34 <= positive <= 62


def test_knockoffs_select_what_matters():
    x = table(300, 20, 0.3, 5)
    y = target(x, list(range(0, 20, 2)), 5)
    found = rn.shrinkage.select(None, x, y, method="knockoffs", fdr=0.2, refit=lambda x, y: linear(x, y, epochs=80))
    assert found.method == "knockoffs"
    assert set(range(0, 20, 2)) <= set(found.indices)
    assert len(found.indices) <= 13
    assert found.p_value.isnan().all()
    few = rn.shrinkage.select(
        None, x, target(x, [3], 6), method="knockoffs", refit=lambda x, y: linear(x, y, epochs=80)
    )
    assert few.indices == []
    assert few.line.startswith("no input can be selected")


def test_local_rates_are_shares_of_draws():
    """By hand from the draws of the weights, of single columns and of a pair."""
    x = table(60, 5, 0.6, 1)
    posterior = linear(x, target(x, [0, 3], 1), epochs=100)
    rates = local_rates(posterior, x, [[0], [1, 2], [3], [4]])
    drawn = posterior.source.joined(1000 if posterior.source.available is None else posterior.source.available, None)
    w = posterior.named(drawn.weights)["weight"][:, 0].double().numpy()
    z = posterior.network_inputs(x).double().numpy()
    whole = (z @ w.T).var(0)
    by_hand = [((z[:, c] @ w[:, c].T).var(0) / whole < 0.01).mean() for c in ([0], [1, 2], [3], [4])]
    assert np.allclose(rates.numpy(), by_hand)
    assert rates[0] < 0.01
    assert rates[2] < 0.01


def test_cumulative_rates_are_means():
    lfdr = torch.tensor([0.45, 0.01, 0.05, 0.3], dtype=torch.float64)
    assert torch.allclose(cumulative_rates(lfdr), torch.tensor([0.2025, 0.01, 0.03, 0.12], dtype=torch.float64))


def test_certain_inputs_let_no_unlikely_one_in():
    """Beside eight that are certain the mean of an input with a rate of .8 is .09."""
    lfdr = torch.cat([torch.zeros(8), torch.tensor([0.8])])
    assert float(cumulative_rates(lfdr)[-1]) == pytest.approx(0.8)


def test_errors_of_local_rates_are_few_where_the_prior_is_right():
    """8 tables of 60 rows and 30 columns at a rate of 0.2: a mean above 0.35 is three standard errors away."""
    false, power = [], []
    for seed in range(8):
        x = table(60, 30, 0.3, seed)
        true = set(range(0, 12, 3))
        y = target(x, sorted(true), seed)
        found = rn.shrinkage.select(linear(x, y, epochs=60), x, y, method="lfdr", fdr=0.2)
        chosen = set(found.indices)
        false.append(len(chosen - true) / max(1, len(chosen)))
        power.append(len(chosen & true) / len(true))
    assert np.mean(false) < 0.35
    assert np.mean(power) > 0.7


def test_what_the_other_ways_cannot_do_is_refused():
    x = table(40, 4, 0.0, 2)
    y = target(x, [0], 2)
    posterior = linear(x, y, epochs=100)
    with pytest.raises(rn.ParameterError, match="method"):
        rn.shrinkage.select(posterior, x, y, method="lasso")
    with pytest.raises(rn.ParameterError, match="posterior"):
        rn.shrinkage.select(None, x, y, method="lfdr")
    with pytest.raises(rn.ParameterError, match="posterior"):
        rn.shrinkage.select(None, x, y, method="knockoffs")
    with pytest.raises(rn.ParameterError, match="no chains"):
        rn.shrinkage.select(linear(x, y, "svgi", epochs=5), x, y, method="lfdr")
    net = rn.BayesianModel(rn.nets.mlp(4, [3], 1))
    with pytest.raises(rn.ParameterError, match="is of a network"):
        rn.shrinkage.select(rn.fit(net, (x.float(), y.float()), epochs=2, verbose=False), x, y, method="lfdr")
    still = x.clone()
    still[:, 2] = 1.0
    with pytest.raises(rn.DataError, match="constant column"):
        rn.shrinkage.select(posterior, still, y, method="knockoffs")
    with pytest.raises(rn.ParameterError, match="fdr"):
        rn.shrinkage.select(posterior, x, y, method="lfdr", fdr=0.0)
    with pytest.raises(rn.ParameterError, match="one input only"):
        rn.shrinkage.select(posterior, x, y, method="knockoffs", groups=[[0, 1], [1, 2]])
