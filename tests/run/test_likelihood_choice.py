"""The choice of a likelihood: what values allow, the rule of one standard error, planted laws."""

import numpy as np
import pytest
import torch

from r2d2net.run import likelihood_choice
from r2d2net.run.likelihood_choice import Errors, choose_likelihood, decide, possible_likelihoods

REAL = ["gaussian", "student-t", "heteroscedastic"]
COUNTS = ["gaussian", "poisson", "negative-binomial"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (lambda rng: rng.normal(size=200), REAL),
        (lambda rng: np.exp(rng.normal(size=200)), [*REAL, "log-normal", "gamma"]),
        (lambda rng: 100 + rng.normal(size=200), REAL),  # positive and even
        (lambda rng: rng.poisson(3, size=200), COUNTS),
        (lambda rng: rng.poisson(3, size=200) - 1, REAL),
        (lambda rng: rng.poisson(3, size=200) + 0.5, [*REAL, "log-normal", "gamma"]),
        (lambda rng: rng.permutation(200), REAL),  # whole, and each but once
        (lambda rng: rng.integers(0, 2, size=200), REAL),
    ],
)
def test_what_values_allow(values, expected):
    assert possible_likelihoods(values(np.random.default_rng(0))) == expected


def gaussian_and(gain, error=1.0):
    zero = torch.zeros(len(gain), dtype=torch.float64)
    densities = {"gaussian": zero, "student-t": zero + gain}
    errors = {"gaussian": Errors(1.0, 1.0), "student-t": Errors(1.0, error)}
    return decide(densities, errors, ["gaussian", "student-t", "heteroscedastic"])


def test_another_is_taken_if_it_gains_more_than_a_standard_error():
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = (noise - noise.mean()) / noise.std()  # standard error of the mean: .05
    taken, left = gaussian_and(noise + 0.06), gaussian_and(noise + 0.04)
    assert taken.record["name"] == "student-t"
    assert taken.record["scores"]["student-t"]["gain_se"] == pytest.approx(0.05)
    assert taken.record["reason"].startswith("student-t: 0.06 nats a row better than gaussian on 400 rows")
    assert left.record["name"] == "gaussian"
    assert left.record["scores"]["heteroscedastic"] is None  # could not be fitted


def test_no_single_row_decides():
    gain = torch.full((100,), -0.05, dtype=torch.float64)
    gain[0] = 1e6  # counts as 10 nats: the mean gain of .05 is below its standard error of .1
    assert gaussian_and(gain).record["name"] == "gaussian"


@pytest.mark.parametrize(("error", "name"), [(1.24, "student-t"), (1.26, "gaussian"), (float("inf"), "gaussian")])
def test_one_whose_means_are_further_off_is_not_taken(error, name):
    choice = gaussian_and(torch.full((100,), 0.5, dtype=torch.float64), error)
    assert choice.record["name"] == name
    assert choice.record["scores"]["student-t"]["trimmed_rmse"] == error
    if name == "gaussian":
        assert "its means are closer than those of student-t (error " in choice.record["reason"]


def test_a_few_rows_may_double_the_error_and_no_more():
    squares = torch.ones(100, dtype=torch.float64)
    squares[:2] = 140.0
    errors = Errors.of(squares)
    assert errors.trimmed == 1
    assert errors.rmse == pytest.approx(3.78**0.5)
    assert errors.beside(Errors(1.0, 1.0)) < 1
    squares[0] = 400.0
    assert Errors.of(squares).beside(Errors(1.0, 1.0)) > 1


def test_errors_are_in_the_units_of_the_targets(monkeypatch):
    monkeypatch.setattr(likelihood_choice, "HIDDEN", (4,))
    monkeypatch.setattr(likelihood_choice, "EPOCHS", 8)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 2))
    y = 1000 * np.exp(0.3 * x[:, 0] + 0.1 * rng.normal(size=160))
    chosen = choose_likelihood(torch.from_numpy(x).float(), y, seed=0, jobs=1)
    noise = (y * 0.1 * np.sqrt(1.01)).std() + y.mean() * 0.1  # of the law itself, roughly
    for name in chosen.record["scores"]:
        assert 0.5 < chosen.record["scores"][name]["rmse"] / noise < 2, name


@pytest.mark.parametrize("law", ["log-normal", "student-t"])
def test_planted_laws_are_found(law, monkeypatch):
    monkeypatch.setattr(likelihood_choice, "HIDDEN", (4,))
    monkeypatch.setattr(likelihood_choice, "EPOCHS", 8)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 2))
    signal = x[:, 0] + 0.5 * x[:, 1]
    y = (
        np.exp(signal + 0.4 * rng.normal(size=160))
        if law == "log-normal"
        else signal + 0.3 * rng.standard_t(2, size=160)
    )
    found = choose_likelihood(torch.from_numpy(x).float(), y, seed=0, jobs=1)
    assert found.record["name"] == law
    if law == "log-normal":
        again = choose_likelihood(torch.from_numpy(x).float(), y, seed=0, jobs=1)
        assert again == found


def test_very_few_rows_are_gaussian():
    found = choose_likelihood(torch.randn(19, 2), np.arange(19.0), seed=0)
    assert found.record == {"name": "gaussian", "reason": "gaussian: fewer than 20 rows to compare others by"}


@pytest.mark.parametrize("law", ["skewed", "gaussian"])
def test_few_rows_of_planted_laws(law, monkeypatch):
    monkeypatch.setattr(likelihood_choice, "EPOCHS", 8)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    y = np.exp(x[:, 0] + rng.normal(size=40)) if law == "skewed" else 100 + 10 * x[:, 0] + 5 * rng.normal(size=40)
    found = choose_likelihood(torch.from_numpy(x).float(), y, seed=0, jobs=1)
    assert found.record["rows"] == 40
    assert found.record["name"] in (("log-normal", "gamma") if law == "skewed" else ("gaussian",))


def test_no_single_row_of_few_decides_and_the_gain_must_be_two_errors():
    gain = torch.full((30,), 0.05, dtype=torch.float64)
    gain[0] = 1e6  # counts as 3 nats: the mean gain of .15 is below twice its standard error of .1
    found = gaussian_and(gain).record
    assert found["name"] == "gaussian"
    assert found["reason"].endswith("is better by more than two standard errors")
    assert found["scores"]["student-t"]["gain"] == pytest.approx(0.148, abs=0.001)
