"""Evidential deep learning: its loss against integrals of the Dirichlet law, and what its strength tells."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special, stats
from torch import nn
from torch.distributions import Dirichlet, kl_divergence

import r2d2net as rn
from r2d2net.errors import ParameterError
from r2d2net.inference import EDL
from r2d2net.inference.edl import expected_cross_entropy, expected_squared_error, misleading_evidence
from r2d2net.prediction import DirichletClassification

RISKS = {"cross-entropy": expected_cross_entropy, "squared-error": expected_squared_error}
TWO_CLASSES = {"cross-entropy": lambda p: -np.log(p), "squared-error": lambda p: 2 * (1 - p) ** 2}  # two classes
CORNERS = 2.0 * torch.tensor([[math.cos(a), math.sin(a)] for a in (0.0, 2 * math.pi / 3, 4 * math.pi / 3)])


def double(*values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def model(net: nn.Module, prior: rn.priors.Gaussian | None = None) -> rn.BayesianModel:
    return rn.BayesianModel(net, prior or rn.priors.Gaussian(1.0), rn.likelihoods.Categorical())


def three_classes(rows: int = 600, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Clouds of deviation 1/2 at the corners of a triangle, 2 from its middle."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (rows,), generator=g)
    return CORNERS[y] + 0.5 * torch.randn(rows, 2, generator=g), y


def fitted(method: EDL, *, seed: int = 0) -> rn.Posterior:
    net = nn.Sequential(nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 3))
    return rn.fit(model(net), three_classes(), method, epochs=60, seed=seed, verbose=False)


def strength(posterior: rn.Posterior, x: torch.Tensor) -> float:
    return float(posterior.predict(x).strength.median())


# --- the loss


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("a", [(1.0, 1.0), (1.3, 7.0), (20.0, 1.01), (300.0, 40.0)])
def test_risk_of_two_classes_by_quadrature(a, risk):
    """p_y ~ Beta(a_y, a_other); quadrature has 10 digits here."""
    law = stats.beta(*a)
    points = law.ppf([0.001, 0.1, 0.5, 0.9, 0.999])
    expected = integrate.quad(lambda p: law.pdf(p) * TWO_CLASSES[risk](p), 0, 1, points=points, limit=200)[0]
    assert float(RISKS[risk](double(a), torch.tensor([0]))) == pytest.approx(expected, rel=1e-7)
    assert float(RISKS[risk](double(a[::-1]), torch.tensor([1]))) == pytest.approx(expected, rel=1e-7)


def test_risks_of_many_classes_by_draws():
    """Means of 200,000 draws lie within 5 standard errors: false alarms below 1e-5 for all 8 together."""
    a, y = double([1, 1, 1, 1, 1], [9, 1, 2, 1.5, 1], [1, 30, 2, 5, 1], [200, 1, 80, 3, 1]), torch.tensor([2, 0, 3, 0])
    rng = np.random.default_rng(0)
    for row, label in zip(a, y, strict=True):
        p = rng.dirichlet(row.numpy(), 200_000)
        losses = {
            "cross-entropy": -np.log(p[:, label]),
            "squared-error": ((np.eye(5)[label] - p) ** 2).sum(1),
        }
        for risk, loss in losses.items():
            found = float(RISKS[risk](row[None], label[None]))
            assert abs(found - loss.mean()) < 5 * loss.std() / math.sqrt(len(loss)), risk


def test_misleading_evidence_leaves_the_own_class_out():
    a, y = double([5, 1, 2, 9], [1, 1, 40, 1], [1, 3, 1, 1]), torch.tensor([3, 2, 0])
    expected = kl_divergence(Dirichlet(double([5, 1, 2, 1], [1, 1, 1, 1], [1, 3, 1, 1])), Dirichlet(torch.ones(4)))
    torch.testing.assert_close(misleading_evidence(a, y), expected)
    surer = a.scatter(1, y[:, None], 1000.0)
    torch.testing.assert_close(misleading_evidence(surer, y), expected)


def test_penalty_rises_to_its_share_of_the_run():
    running = EDL(penalty=2.0, rise=0.25).build(model(nn.Linear(2, 3)), n=10, steps=400)
    assert [running.loss.penalty_weight(t) for t in (1, 25, 50, 100, 101, 400)] == [0.02, 0.5, 1.0, 2.0, 2.0, 2.0]
    at_once = EDL(rise=0.0).build(model(nn.Linear(2, 3)), n=10, steps=400)
    assert at_once.loss.penalty_weight(1) == 1.0
    z, y = torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.5, -1.0]]), torch.tensor([0, 1])
    a = 1 + torch.log1p(z.exp())
    expected = (expected_cross_entropy(a, y) + 0.5 * misleading_evidence(a, y)).mean()
    torch.testing.assert_close(running.loss(z, y, {}, 25), expected)


@pytest.mark.parametrize("risk", RISKS)
def test_training_ends_where_the_risk_of_mixed_labels_is_least(risk):
    """One input with labels of shares .6, .3, .1: the minimum over a, by scipy and formulas of its own."""

    def objective(z):
        a, value = 1 + np.logaddexp(0, z), 0.0
        for label, share in enumerate((0.6, 0.3, 0.1)):
            p, total, rest = a / a.sum(), a.sum(), np.where(np.arange(3) == label, 1.0, a)
            cross_entropy = special.psi(total) - special.psi(a[label])
            squared = ((np.eye(3)[label] - p) ** 2 + p * (1 - p) / (total + 1)).sum()
            kl = special.gammaln(rest.sum()) - math.log(2) - special.gammaln(rest).sum()
            kl += ((rest - 1) * (special.psi(rest) - special.psi(rest.sum()))).sum()
            value += share * ((cross_entropy if risk == "cross-entropy" else squared) + 0.1 * kl)
        return value

    best = optimize.minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
    y = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])
    method = EDL(risk=risk, penalty=0.1, temperature=0.0, lr=0.2, rise=0.1)
    data = torch.zeros(10, 1, dtype=torch.float64), y
    posterior = rn.fit(model(nn.Linear(1, 3).double()), data, method, epochs=800, standardize=False, verbose=False)
    found = posterior.predict(data[0][:1]).concentration[0, 0].numpy()
    np.testing.assert_allclose(found, 1 + np.logaddexp(0, best.x), rtol=1e-3)
    assert posterior.history[-1]["nll"] == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("evidence", ["softplus", "relu", "exp"])
def test_loss_is_finite_at_any_output(evidence, risk):
    running = EDL(evidence=evidence, risk=risk).build(model(nn.Linear(2, 3)), n=10, steps=1)
    values = torch.tensor([-1e6, -200.0, -20.0, 0.0, 20.0, 200.0, 1e6])
    z = torch.cartesian_prod(values, values, values).requires_grad_()
    loss = running.loss(z, torch.arange(len(z)) % 3, {}, 1)
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.isfinite()
    assert gradient.isfinite().all()


# --- what the strength tells


def test_strength_falls_between_the_classes_and_the_penalty_makes_it_fall():
    """Seeds 0 to 4 had 6 to 7 in the empty middle, 18 to 19 on the borders and 35 to 36 at the data; without the
    penalty 13 to 14, 29 to 35 and 38 to 40.
    """
    x, y = three_classes(seed=1)
    with_penalty, without = fitted(EDL()), fitted(EDL(penalty=0.0))
    middle, borders = torch.zeros(1, 2), -CORNERS  # opposite to a class: as far from the middle, between two others
    at_data = strength(with_penalty, x)
    assert strength(with_penalty, middle) < 0.35 * at_data
    assert strength(with_penalty, borders) < 0.7 * at_data
    for gap in (middle, borders):
        share = strength(without, gap) / strength(without, x)
        assert strength(with_penalty, gap) / at_data < 0.75 * share
    assert float((with_penalty.predict(x).label == y).float().mean()) > 0.98


def test_strength_far_from_all_data_grows():
    """What evidential networks do not know: evidence of ReLU networks is linear in the distance."""
    posterior = fitted(EDL())
    here, far, farther = (strength(posterior, distance * CORNERS) for distance in (1.0, 10.0, 100.0))
    assert here < far < farther
    assert farther / far == pytest.approx(10, rel=0.1)


# --- how it fits in


def test_saved_posterior_predicts_the_same(tmp_path):
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = three_classes(60)
    bayesian = model(net)
    posterior = rn.fit(bayesian, (x, y), "edl", epochs=3, seed=3, checkpoint_to=tmp_path, verbose=False)
    assert type(bayesian.likelihood) is rn.likelihoods.Categorical
    assert posterior.settings["model"]["likelihood"] == {"type": "Categorical", "arguments": {}}
    found, loaded = posterior.predict(x), rn.load(tmp_path, net).predict(x)
    assert isinstance(found, DirichletClassification)
    assert found.concentration.shape == (1, 60, 3)
    assert bool((found.concentration >= 1).all())
    assert torch.equal(found.concentration, loaded.concentration)
    again = rn.fit(bayesian, (x, y), "edl", epochs=3, seed=3, resume=tmp_path, verbose=False)
    assert torch.equal(again.state.mean, posterior.state.mean)


def test_scores_and_restarts_read_it(tmp_path):
    x, y = three_classes(60)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    posterior = rn.fit(model(net), (x, y), EDL(), epochs=2, restarts=2, jobs=1, verbose=False)
    scores = rn.metrics.ood_scores(posterior, x, 3 * x)
    np.testing.assert_allclose(scores.in_scores, posterior.predict(x).entropy.double().numpy(), rtol=1e-5)
    vacuity = rn.metrics.compare_scores(posterior.predict(x).vacuity, posterior.predict(3 * x).vacuity)
    assert 0 <= vacuity.auroc <= 1


@pytest.mark.parametrize(
    "likelihood", [rn.likelihoods.Gaussian(), rn.likelihoods.Bernoulli(), rn.likelihoods.Poisson()], ids=repr
)
def test_other_likelihoods_are_refused(likelihood):
    other = rn.BayesianModel(nn.Linear(2, 1), rn.priors.Gaussian(1.0), likelihood)
    name = type(likelihood).__name__
    needs = "it replaces a softmax over classes; use Categorical"
    message = rf"^algorithm=EDL does not suit the likelihood {name}: {needs}$"
    with pytest.raises(ParameterError, match=message):
        EDL().build(other, n=10, steps=10)


def test_priors_without_a_mode_are_refused():
    with pytest.raises(ParameterError, match=r"^algorithm=EDL does not suit the prior R2D2"):
        EDL().build(rn.BayesianModel(nn.Linear(2, 3), likelihood=rn.likelihoods.Categorical()), n=10, steps=10)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("risk", "hinge"), ("evidence", "tanh"), ("penalty", -1.0), ("rise", 1.5), ("rise", -0.1)],
)
def test_settings_out_of_range(argument, value):
    with pytest.raises(ParameterError, match=rf"^{argument}=.*{value}.* is out of range: use "):
        EDL(**{argument: value})
