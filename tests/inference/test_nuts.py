"""The No-U-Turn sampler: pyro's own chain to the bit, through a file after any transition, and eight schools."""

import math
import sys

import numpy as np
import pytest
import torch

from r2d2net import DivergenceError, ParameterError, checkpoint
from r2d2net.diagnostics.convergence import diagnose
from r2d2net.inference.base import flatten, unflatten
from r2d2net.inference.nuts import NutsSettings, start, transition
from r2d2net.run.global_generator import lent_generator

DOUBLE = torch.float64
CPU = torch.device("cpu")
WARM_UP = 200  # two windows of the mass matrix: they end at transitions 99 and 149


def banana(position):
    """a ~ N(0, 9), b | a ~ N(a^2 / 9, 1), c ~ N(0, 1), and a wall at a = -1, at which trajectories diverge."""
    a, b, c = position
    return -0.5 * (a.square() / 9 + (b - a.square() / 9).square() + c.square()) - torch.where(a < -1, 1e6, 0.0)


def chain(log_density, position, settings, transitions, seed=0):
    """All positions and states, under the global generator."""
    state, path = start(position), []
    with lent_generator(seed, CPU):
        for _ in range(transitions):
            position, state = transition(log_density, position, state, settings)
            path.append((position, state))
    return path


def test_a_chain_is_that_of_an_uninterrupted_kernel():
    """To the bit: a kernel that is built anew for every transition learns and moves as pyro's does in one run."""
    from pyro.infer.mcmc import NUTS

    position, transitions = torch.zeros(3, dtype=DOUBLE), WARM_UP + 40
    ours = chain(banana, position, NutsSettings(WARM_UP, 0.6, 5), transitions)
    kernel = NUTS(potential_fn=lambda sites: -banana(sites["x"]), target_accept_prob=0.6, max_tree_depth=5)
    kernel.initial_params = {"x": position.clone()}
    with lent_generator(0, CPU):
        kernel.setup(WARM_UP)
        sites = kernel.initial_params
        theirs = []
        for _ in range(transitions):
            sites = kernel.sample(sites)
            theirs.append((sites["x"], kernel.step_size))
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(ours, theirs, strict=True))
    assert [float(state.step_size) for _, state in ours] == [size for _, size in theirs]
    last = ours[-1][1]
    assert torch.equal(last.inverse_mass, kernel.inverse_mass_matrix[("x",)])
    assert not torch.equal(last.inverse_mass, torch.ones(3, dtype=DOUBLE))
    assert int(last.divergences) == len(kernel.diagnostics()["divergences"]) > 0
    masses = [state.inverse_mass for _, state in ours]
    assert [k + 1 for k in range(1, transitions) if not torch.equal(masses[k], masses[k - 1])] == [99, 149]


def test_a_chain_goes_on_from_a_file_after_any_transition(tmp_path):
    """Each transition from what the file holds of the one before, so all of them, whatever was interrupted."""
    position, settings = torch.zeros(3, dtype=DOUBLE), NutsSettings(30)
    state, path = start(position), tmp_path / "chain.safetensors"
    for k in range(45):
        checkpoint.write(path, {"position": position, **flatten(state)}, {})
        found = checkpoint.read(path)[0]
        stored = found.pop("position")
        with lent_generator(k, CPU):
            position, state = transition(banana, position, state, settings)
        with lent_generator(k, CPU):
            again, resumed = transition(banana, stored, unflatten(start(stored), found), settings)
        assert torch.equal(again, position)
        before, after = flatten(state), flatten(resumed)
        assert all(torch.equal(before[name], after[name]) for name in before)


SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(position):
    """y_j ~ N(mu + tau e_j, error_j), e_j ~ N(0, 1), mu ~ N(0, 5), tau ~ C+(0, 5); position = (mu, log tau, e)."""
    mu, log_tau, e = position[0], position[1], position[2:]
    tau = log_tau.exp()
    residuals = (torch.from_numpy(SCHOOLS) - mu - tau * e) / torch.from_numpy(ERRORS)
    log_prior = -mu.square() / 50 - torch.log1p((tau / 5).square()) + log_tau - 0.5 * e.square().sum()
    return log_prior - 0.5 * residuals.square().sum()


def exact_eight_schools():
    """Means and deviations of (mu, tau, theta_1) by the trapezoid rule in log tau: given tau all is normal."""
    log_tau = np.arange(-25, 12, 0.01)
    tau = np.exp(log_tau)[:, None]
    spread = ERRORS**2 + tau**2
    precision = 1 / 25 + (1 / spread).sum(1)
    mu = (SCHOOLS / spread).sum(1) / precision
    log_evidence = (
        -0.5 * (np.log(spread) + SCHOOLS**2 / spread).sum(1) - 0.5 * np.log(precision) + 0.5 * precision * mu**2
    )
    log_weight = log_evidence + log_tau - np.log1p((tau[:, 0] / 5) ** 2)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    share = tau[:, 0] ** 2 / spread[:, 0]  # of a school's own result in its effect
    theta = share * SCHOOLS[0] + (1 - share) * mu
    theta_variance = share * ERRORS[0] ** 2 + (1 - share) ** 2 / precision
    found = []
    for mean, variance in ((mu, 1 / precision), (tau[:, 0], 0.0), (theta, theta_variance)):
        first = weight @ mean
        found.append((first, math.sqrt(weight @ (variance + mean**2) - first**2)))
    return found


def test_eight_schools():
    """Means and mean squares within 5 Monte Carlo errors (6e-7 each): mu, tau and theta_1.

    Published (posteriordb's reference draws): mu 4.4 +- 3.3, tau 3.6 +- 3.2, theta_1 6.2 +- 5.6.
    """
    exact = exact_eight_schools()
    np.testing.assert_allclose(exact, [(4.4, 3.3), (3.6, 3.2), (6.2, 5.6)], atol=0.06)
    path = chain(eight_schools, torch.zeros(10, dtype=DOUBLE), NutsSettings(150), 650, seed=1)
    draws = torch.stack([position for position, _ in path[150:]])
    mu, tau = draws[:, 0], draws[:, 1].exp()
    for quantity, (mean, deviation) in zip((mu, tau, mu + tau * draws[:, 2]), exact, strict=True):
        for power, expected in ((1, mean), (2, deviation**2 + mean**2)):
            values = quantity**power
            assert abs(float(values.mean()) - expected) < 5 * float(diagnose(values[None]).mcse)


@pytest.mark.parametrize("warm_up", [22, 50])
def test_short_warm_ups_end_with_a_step_size_that_moves(warm_up):
    """With the shares of pyro's own windows every other chain of the shorter kind accepts less than half."""
    for seed in range(5):
        path = chain(
            lambda x: -0.5 * x.square().sum(), torch.ones(2, dtype=DOUBLE), NutsSettings(warm_up), warm_up + 15, seed
        )
        assert float(torch.stack([state.acceptance for _, state in path[warm_up:]]).mean()) > 0.5


def test_a_start_without_density():
    with pytest.raises(DivergenceError, match=r"^the log density is nan where the chain stands: check the data"):
        chain(lambda x: x.log().sum(), torch.full((2,), -1.0, dtype=DOUBLE), NutsSettings(10), 1)


def test_without_pyro(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyro", None)
    with pytest.raises(ParameterError, match=r"^algorithm=HMC needs pyro-ppl: pip install 'r2d2net\[mcmc\]'$"):
        chain(banana, torch.zeros(3), NutsSettings(10), 1)
