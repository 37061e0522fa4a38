"""The largest curvature by differences of gradients, against eigenvalues."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import SGHMC, SGLD
from r2d2net.inference.curvature import largest_curvature


def test_it_is_the_largest_eigenvalue_under_the_metric():
    """Eigenvalues 1, 2, ..., 30 in a random basis, and a metric over two orders of magnitude; 60 products."""
    g = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(30, 30, generator=g, dtype=torch.float64))[0]
    hessian = basis @ torch.diag(torch.arange(1.0, 31.0, dtype=torch.float64)) @ basis.T
    metric = torch.logspace(-1, 1, 30, dtype=torch.float64)
    here = hessian @ torch.randn(30, generator=g, dtype=torch.float64)
    found = largest_curvature(lambda shift: here + hessian @ shift, here, metric, torch.ones(30), iterations=60)
    root = metric.sqrt()
    exact = torch.linalg.eigvalsh(root[:, None] * hessian * root)[-1]
    assert float(found) == pytest.approx(float(exact), rel=1e-3)
    few = largest_curvature(lambda shift: here + hessian @ shift, here, metric, torch.ones(30))
    assert 0.5 * exact < few <= exact


def test_a_saddle_counts_by_the_size_of_its_curvature():
    hessian, here = torch.diag(torch.tensor([-7.0, 2.0])), torch.ones(2)
    assert float(largest_curvature(lambda shift: here + hessian @ shift, here, here, here)) == pytest.approx(
        7, rel=1e-2
    )


def test_no_gradient_is_no_curvature():
    zero = torch.zeros(3)
    assert float(largest_curvature(lambda shift: zero, zero, torch.ones(3), torch.ones(3))) == 0


@pytest.mark.parametrize(("kind", "limit"), [(SGHMC, 4.0), (SGLD, 2.0)])
def test_steps_on_a_wide_linear_layer_are_half_of_what_the_integrator_bears(kind, limit):
    """40 x 400, noise known: l times the largest eigenvalue of X'X / (n noise^2) is half the limit, within 30%.

    With lr = 100 the step would be far too large without the cap. Draws are made with a constant factor.
    """
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 400, generator=g), torch.randn(40, 1, generator=g)
    model = rn.BayesianModel(
        nn.Linear(400, 1, bias=False), rn.priors.Gaussian(10.0), rn.likelihoods.Gaussian(noise=0.5)
    )
    running = kind(lr=100.0, burn_in=0.5, preconditioner="none", schedule="constant").build(model, n=40, steps=200)
    state = running.init(y, g)
    largest = torch.linalg.eigvalsh(x @ x.T)[-1] / (40 * 0.5**2)
    steps = []
    for t in range(1, 201):
        state, info = running.step(state, (x, y), g)
        if t > 100:
            steps.append(float(state.watch.curvature))
    assert torch.isfinite(info.nll)
    assert len(set(steps)) == 1
    assert 1 < float(largest / state.watch.curvature) < 1.3  # four products, from below
    kick = float(state.coefficients["kick"].max())
    assert kick * float(state.watch.curvature) == pytest.approx(limit / 2, rel=1e-3)


def test_dropout_and_running_statistics_do_not_notice_the_measurement(monkeypatch):
    """The passes repeat the step's masks: their difference would be noise; buffers and generators stay as they were."""
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Gaussian(noise=1.0))
    x, y = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(20, 1)
    ends = []
    for measures in (True, False):
        running = SGHMC(lr=1e-3).build(model, n=20, steps=20)
        if not measures:
            monkeypatch.setattr(running, "measures_curvature", lambda t: False)
        g = torch.Generator().manual_seed(1)
        state = running.init(y, g)
        torch.manual_seed(2)
        for _ in range(20):
            state, _ = running.step(state, (x, y), g)
        assert (float(state.watch.curvature) > 0) == measures
        ends.append((state.weights, *state.buffers.values(), torch.random.get_rng_state()))
    for first, second in zip(*ends, strict=True):
        assert torch.equal(first, second)


def test_the_measurement_repeats_the_masks_of_dropout(monkeypatch):
    """Gradients that differ by their masks would give a curvature that grows as the move gets smaller."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1)).double()
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Gaussian(noise=1.0))
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 3, generator=g, dtype=torch.float64), torch.ones(20, 1, dtype=torch.float64)
    found = []
    for nudge in (1e-2, 1e-5):
        monkeypatch.setattr("r2d2net.inference.curvature.NUDGE", nudge)
        running, g = SGHMC().build(model, n=20, steps=20), torch.Generator().manual_seed(1)
        torch.manual_seed(2)
        found.append(float(running.step(running.init(y, g), (x, y), g)[0].watch.curvature))
    assert found[0] == pytest.approx(found[1], rel=0.1)


def test_a_chain_that_runs_away_is_an_error_in_one_line(monkeypatch):
    """Without the cap 57 rows of 4,000 columns explode, and the noise swallows the residuals."""
    monkeypatch.setattr("r2d2net.inference.langevin.cap", lambda lr, curvature, limit: torch.ones(()))
    g = torch.Generator().manual_seed(0)
    x = torch.randn(57, 8, generator=g) @ torch.randn(8, 4000, generator=g) + torch.randn(57, 4000, generator=g)
    model, data = rn.BayesianModel(nn.Linear(4000, 1), rn.priors.R2D2()), (x, x[:, 0])
    fix = r"algorithm='svgi' is safer, or use more epochs or a smaller lr$"
    with pytest.raises(
        rn.errors.DivergenceError, match=r"^algorithm=SGHMC ran away by step \d+: the noise variance is .*; " + fix
    ):
        rn.fit(model, data, "sghmc", epochs=300, verbose=False)


@pytest.mark.parametrize("kind", [SGHMC, SGLD])
@pytest.mark.parametrize("epochs", [100, 300])
def test_a_wide_linear_problem_does_not_explode(kind, epochs):
    """57 rows of 4,088 correlated columns: RMSE on the training rows in units of sd(y); up to 237 without the cap."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(57, 8, generator=g) @ torch.randn(8, 4088, generator=g) / 2 + torch.randn(57, 4088, generator=g)
    y = x[:, :20] @ torch.randn(20, generator=g)
    posterior = rn.fit(rn.BayesianModel(nn.Linear(4088, 1), rn.priors.R2D2()), (x, y), kind(), epochs=epochs)
    assert rn.metrics.rmse(y, posterior.predict(x).mean) < 1.1 * float(y.std())
