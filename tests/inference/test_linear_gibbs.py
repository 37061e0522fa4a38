"""LinearGibbs against exact draws, simulation-based calibration, importance sampling and planted faults.

A Geweke test has 35 or 44 statistics; p-values are Bonferroni's. Sound sweeps must have p > 1e-3 at a pinned seed (a
false alarm in 1e-3 of the seeds), planted faults p < 1e-6.
"""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.linalg import helmert
from torch import nn

import r2d2net as rn
from linear_gibbs_proofs import design, geweke, hyper_of, ranks, uniform_p_value
from r2d2net.inference import LinearGibbs, linear_sweep
from r2d2net.inference.base import flatten
from r2d2net.inference.linear_problem import Factors, Spectrum, linear_problem
from r2d2net.inference.split_r_hat import split_r_hat
from r2d2net.priors import (
    R2D2,
    DirichletLaplace,
    Gaussian,
    GeneralizedDoublePareto,
    Horseshoe,
    HorseshoePlus,
    SpikeSlab,
)

DOUBLE = torch.float64
SOUND, FAULTY = 1e-3, 1e-6
REGIMES = [(6, 3), (3, 6)]
PRIORS = [Gaussian(), R2D2(a_pi=0.5), Horseshoe(), R2D2.adaptive()]
SCANS = [R2D2(a_pi=0.5), R2D2.from_r2(0.5, 2.0, 1.2), Horseshoe(), Horseshoe(global_scale=None), HorseshoePlus()]
JOINT = [R2D2.adaptive(), DirichletLaplace(), GeneralizedDoublePareto(), SpikeSlab()]


def name(prior):
    return type(prior).__name__


# --- the sweep leaves the posterior invariant


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_sweeps_leave_the_joint_law_unchanged(prior, shape):
    z, worst, p_value = geweke(design(*shape), hyper_of(prior), chains=3000, sweeps=5)
    assert p_value > SOUND, (worst, z)


@pytest.mark.slow
@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_sweeps_of_many_chains_leave_the_joint_law_unchanged(prior, shape):
    z, worst, p_value = geweke(design(*shape), hyper_of(prior, 0.8, 1.7), chains=20_000, sweeps=8, seed=1)
    assert p_value > SOUND, (worst, z)


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_metropolis_steps_of_the_scale_leave_the_joint_law_unchanged(prior, shape, monkeypatch):
    monkeypatch.setattr(linear_sweep, "LARGEST_SPECTRUM", 0)
    z, worst, p_value = geweke(design(*shape), hyper_of(prior, 0.8, 1.7), chains=6000, sweeps=12)
    assert p_value > SOUND, (worst, z)


def scales_alone(problem, hyper, chains, generator):
    return chains._replace(scales=linear_sweep.draw_scales(problem, hyper, chains, generator))


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("prior", [*SCANS, *JOINT], ids=name)
def test_the_scales_of_every_prior_are_drawn_exactly(prior, inputs):
    """A strong prior on R2, and nothing but draws of scales: where a wrong correction shows most."""
    x = design(4, inputs)
    chains = 4000 if prior.draws_scales_jointly else 20_000
    z, worst, p_value = geweke(x, hyper_of(prior, 3.0, 3.0), chains=chains, sweeps=20, sweep=scales_alone)
    assert p_value > SOUND, (worst, z)


@pytest.mark.parametrize("prior", SCANS, ids=name)
def test_a_scan_in_one_direction_is_caught(prior, monkeypatch):
    monkeypatch.setattr(type(prior), "gibbs_reversed", type(prior).gibbs)
    found = geweke(design(4, 1), hyper_of(prior, 3.0, 3.0), chains=40_000, sweeps=20, sweep=scales_alone)
    assert found[2] < FAULTY, found


def uncorrected(problem, hyper, chains, generator):
    standard = linear_sweep._standardized(chains.weights, chains.variance, chains.log_g)
    return hyper.prior.gibbs(standard, chains.scales, generator)


def without_jacobian(density):
    """The density of tau^2 itself where that of its logarithm belongs."""
    return lambda hyper, log_tau: density(hyper, log_tau) - 2 * log_tau


def stale_shares(draw_weights):
    """The matrix of the sweep before."""
    before = []

    def faulty(problem, hyper, chains, generator, learning_rate=0.0):
        before.append(chains.scales)
        drawn = draw_weights(problem, hyper, chains._replace(scales=before[-2:][0]), generator, learning_rate)
        return drawn._replace(scales=chains.scales)

    return faulty


def power_of_sigma(posterior):
    def faulty(problem, hyper, quadratic):
        shape, rate = posterior(problem, hyper, quadratic)
        return shape + 0.5, rate

    return faulty


def scaled_by_variance(standardized):
    return lambda weights, variance, log_g: standardized(weights, variance.square(), log_g)


FAULTS = {
    "a wrong power of sigma in the noise": ("_noise_posterior", power_of_sigma),
    "weights divided by sigma^2": ("_standardized", scaled_by_variance),
    "no Jacobian of tau": ("log_density", without_jacobian),
    "scales without a correction": ("draw_scales", lambda _: uncorrected),
    "a stale matrix": ("draw_weights", stale_shares),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault, monkeypatch):
    function, plant = FAULTS[fault]
    monkeypatch.setattr(linear_sweep, function, plant(getattr(linear_sweep, function)))
    monkeypatch.setattr(linear_sweep, "LARGEST_SPECTRUM", 0)
    found = geweke(design(3, 6), hyper_of(R2D2(a_pi=0.5)), chains=20_000, sweeps=10)
    assert found[2] < FAULTY, found


# --- calibration by simulation


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("prior", [R2D2(), Horseshoe()], ids=name)
def test_ranks_of_the_truth_are_uniform(prior, shape):
    p_value, each = uniform_p_value(ranks(design(*shape), hyper_of(prior), replications=200))
    assert p_value > SOUND, each


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*REGIMES, (12, 20), (20, 12)], ids=str)
@pytest.mark.parametrize("prior", [R2D2(), Horseshoe()], ids=name)
def test_ranks_of_a_thousand_truths_are_uniform(prior, shape):
    p_value, each = uniform_p_value(ranks(design(*shape), hyper_of(prior), replications=1000, thin=15, burn_in=150))
    assert p_value > SOUND, each


def test_ranks_show_a_wrong_posterior(monkeypatch):
    monkeypatch.setattr(linear_sweep, "_noise_posterior", power_of_sigma(linear_sweep._noise_posterior))
    assert uniform_p_value(ranks(design(6, 3), hyper_of(R2D2()), replications=1000))[0] < FAULTY


# --- agreement with importance sampling, by formulas of its own


def by_importance(x, y, prior, a, b, noise, count, seed=0):
    """E[w] and E[sigma^2] with their standard errors: scales and R2 from the prior, weighted by p(y | scales, R2).

    A flat intercept leaves the n - 1 contrasts of y, on which it has no effect.
    """
    total, p = x.shape
    centred, contrasts = x - x.mean(0), helmert(total)
    x, y, n = contrasts @ x, contrasts @ y, total - 1
    generator = torch.Generator().manual_seed(seed)
    scales = prior.init_scales((count, p), generator, groups=(count, 1), dtype=DOUBLE)
    v = prior.variance(scales).numpy()
    r2 = np.random.default_rng(seed).beta(a, b, count).clip(1e-12, 1 - 1e-12)
    prior_variance = v * (r2 / (1 - r2) / (v @ np.square(centred).mean(0)))[:, None]
    log_weight, weights, variances = np.empty(count), np.empty((count, p)), np.empty(count)
    a0, b0 = noise
    for part in np.array_split(np.arange(count), max(1, count // 20_000)):
        q = prior_variance[part]
        cov = np.einsum("ij,cj,kj->cik", x, q, x) + np.eye(n)
        solved = np.linalg.solve(cov, np.broadcast_to(y, (len(part), n))[..., None])[..., 0]
        quadratic, log_det = solved @ y, np.linalg.slogdet(cov)[1]
        log_weight[part] = -log_det / 2 - (a0 + n / 2) * np.log(b0 + quadratic / 2)
        weights[part] = q * (solved @ x)
        variances[part] = (b0 + quadratic / 2) / (a0 + n / 2 - 1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    values = np.column_stack([weights, variances])
    mean = weight @ values
    return mean, np.sqrt(np.square(weight) @ np.square(values - mean))


@pytest.mark.parametrize("shape", [(7, 3), (4, 6)], ids=str)
@pytest.mark.parametrize("prior", [Gaussian(), R2D2(a_pi=0.5), Horseshoe(), R2D2.adaptive()], ids=name)
def test_posterior_means_agree_with_importance_sampling(prior, shape):
    """With an intercept; |z| below 4.5 for up to 7 means: a false alarm in 5e-5 of the seeds."""
    n, p = shape
    x = design(n, p) + 3.0
    generator = torch.Generator().manual_seed(2)
    y = 1.5 * x[:, 0] - x[:, 1] + 2 + 0.5 * torch.randn(n, generator=generator, dtype=DOUBLE)
    hyper = hyper_of(prior, 0.8, 1.3)
    expected, error = by_importance(x.numpy(), y.numpy(), prior, hyper.a, hyper.b, (3.0, 2.0), 60_000)

    count, sweeps, burn_in = 200, 150, 50
    problem = linear_problem(x, y[:, None], intercept=True)
    chains = linear_sweep.first_chains(hyper, count, p, generator)
    chains = linear_sweep.start(problem, hyper, chains, generator)
    total = torch.zeros(count, p + 1, dtype=DOUBLE)
    for k in range(sweeps):
        chains = linear_sweep.sweep(problem, hyper, chains, generator)
        if k >= burn_in:
            total += torch.cat([chains.weights, chains.variance[:, None]], 1)
    means = (total / (sweeps - burn_in)).numpy()
    own_error = means.std(0, ddof=1) / math.sqrt(count)
    z = (means.mean(0) - expected) / np.hypot(error, own_error)
    assert np.abs(z).max() < 4.5, (z, expected, means.mean(0))


# --- the algebra


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)], ids=str)
def test_both_forms_of_the_solve_are_the_dense_formulas(shape):
    n, p = shape
    generator = torch.Generator().manual_seed(0)
    x = design(n, p)
    y = torch.randn(n, 2, generator=generator, dtype=DOUBLE)
    problem = linear_problem(x, y, intercept=True)
    shares = torch.rand(2, p, generator=generator, dtype=DOUBLE)
    tau = torch.tensor([0.7, 3.0], dtype=DOUBLE)
    spectrum, factors = (cls(problem.x, problem.y.T, shares, gram=problem.gram) for cls in (Spectrum, Factors))
    factor = factors.factor(tau)
    for chain in range(2):
        m = torch.eye(n, dtype=DOUBLE) + tau[chain] ** 2 * (problem.x * shares[chain]) @ problem.x.T
        quadratic = problem.y[:, chain] @ torch.linalg.solve(m, problem.y[:, chain])
        for energy in (spectrum.energy(tau[:, None]), factors.energy(tau, factor)):
            torch.testing.assert_close(energy[0].reshape(-1)[chain], quadratic)
            torch.testing.assert_close(energy[1].reshape(-1)[chain], m.logdet() / 2)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("form", [Spectrum, Factors])
def test_drawn_weights_have_the_closed_form_law(shape, form):
    """Mahalanobis distances of 4,000 draws are chi-square: KS p-value above 1e-3."""
    n, p = shape
    x, count = design(n, p), 4000
    y = torch.linspace(-1, 2, n, dtype=DOUBLE)[:, None]
    problem = linear_problem(x, y, intercept=False)
    shares = torch.linspace(0.2, 1.5, p, dtype=DOUBLE)
    tau, variance = torch.full((count,), 1.3, dtype=DOUBLE), torch.full((count,), 0.6, dtype=DOUBLE)
    given = form(problem.x, problem.y.T.expand(count, -1), shares.expand(count, -1), gram=problem.gram)
    generator = torch.Generator().manual_seed(3)
    extra = () if form is Spectrum else (given.factor(tau),)
    draws = given.draw(tau, *extra, variance, generator)
    precision = (x.T @ x + torch.diag(1 / (1.3**2 * shares))) / 0.6
    mean = torch.linalg.solve(precision, x.T @ y[:, 0] / 0.6)
    distance = ((draws - mean) @ precision * (draws - mean)).sum(1).numpy()
    assert stats.kstest(distance, stats.chi2(p).cdf).pvalue > 1e-3
    z = (draws.mean(0) - mean) / (torch.linalg.inv(precision).diagonal() / count).sqrt()
    assert float(z.abs().max()) < 4


# --- as an algorithm


def table(n=40, p=5, outputs=1, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, p, generator=generator)
    effects = torch.zeros(p, outputs)
    effects[0] = torch.arange(1.0, outputs + 1)
    return x, 4 + x @ effects + 0.3 * torch.randn(n, outputs, generator=generator)


def fit(x, y, prior=None, method=None, net=None, **options):
    net = nn.Linear(x.shape[1], y.shape[1]) if net is None else net
    model = rn.BayesianModel(net, R2D2() if prior is None else prior)
    return rn.fit(model, (x, y), method or LinearGibbs(), **{"epochs": 60, "verbose": False, **options})


def test_several_outputs_have_noise_and_scales_of_their_own():
    x, y = table(outputs=3)
    y[:, 2] += 5 * torch.randn(len(y), generator=torch.Generator().manual_seed(9))
    posterior = fit(x, y, Gaussian(), LinearGibbs(thin=2), epochs=240)
    assert posterior.state.weights.shape == (4, 90, 5 * 3 + 3)
    predicted = posterior.predict(x)
    assert predicted.mean.shape == (40, 3)
    assert (predicted.mean - y)[:, :2].square().mean() < 0.2
    noise = posterior.state.noise["variance"].mean((0, 1)).sqrt() * y.std(0)
    assert 0.2 < noise[0] < 0.45
    assert noise[2] > 3


@pytest.mark.parametrize("bias", [True, False])
def test_the_bias_is_drawn_where_there_is_one(bias):
    x, y = table()
    net = nn.Linear(5, 1, bias=bias)
    posterior = fit(x, y, net=net, epochs=200)
    error = (posterior.predict(x).mean - y).square().mean().sqrt()
    assert error < 0.4  # standardisation takes off the mean
    assert ("bias" in next(posterior.state_dicts(1, seed=0))) == bias


@pytest.mark.parametrize("net", [rn.nets.mlp(5, [], 1), nn.Sequential(nn.Flatten(), nn.Linear(5, 1))], ids=name)
def test_other_spellings_of_a_linear_layer_are_taken(net):
    x, y = table()
    plain, other = fit(x, y), fit(x, y, net=net)
    assert torch.equal(other.state.weights, plain.state.weights)
    assert torch.equal(other.mean(), plain.mean())


def test_a_deterministic_bias_is_drawn_too():
    x, y = table()
    model = rn.BayesianModel(nn.Linear(5, 1), R2D2(), bias=None)
    posterior = rn.fit(model, (x, y), LinearGibbs(), epochs=60, verbose=False)
    assert posterior.state.fixed.std() > 0


def test_a_run_ends_when_the_chains_agree_and_says_so():
    x, y = table(200)
    posterior = fit(x, y, Gaussian(), epochs=4000)
    last = posterior.history[-1]
    assert 1000 + 100 <= len(posterior.history) < 4000
    assert 0.99 < last["r_hat"] <= 1.01
    short = fit(x, y, Gaussian(), epochs=40)
    assert len(short.history) == 40
    assert "r_hat" in short.history[-1]
    assert "r_hat" not in short.history[0]


def test_chains_that_disagree_are_named_in_a_warning():
    x, y = table(20, 60)
    with pytest.warns(UserWarning, match=r"^the chains disagree after 12 sweeps \(R-hat .*\): use more epochs"):
        fit(x, y, Horseshoe(), epochs=12)


def test_a_run_killed_after_it_was_done_or_before_ends_the_same(tmp_path):
    x, y = table(30)
    alone = fit(x, y, Horseshoe(), epochs=250)
    runs = []

    class Killed(BaseException):
        pass

    def dying(module, _):
        runs.append(1)
        if len(runs) in (5, 190):
            raise Killed

    net = nn.Linear(5, 1)
    handle = net.register_forward_pre_hook(dying)
    with pytest.raises(Killed):
        fit(x, y, Horseshoe(), net=net, epochs=250, resume=tmp_path, checkpoint_every=0)
    handle.remove()
    with pytest.raises(KeyboardInterrupt):
        _interrupted(x, y, tmp_path)
    resumed = fit(x, y, Horseshoe(), epochs=250, resume=tmp_path)
    assert resumed.history == alone.history
    for key, tensor in flatten(alone.state).items():
        assert torch.equal(tensor, flatten(resumed.state)[key]), key


def _interrupted(x, y, folder):
    count = []

    def hook(module, _):
        count.append(1)
        if len(count) == 170:
            raise KeyboardInterrupt

    net = nn.Linear(5, 1)
    net.register_forward_pre_hook(hook)
    fit(x, y, Horseshoe(), net=net, epochs=250, resume=folder, checkpoint_every=0)


def constant_target(x, y):
    return x, torch.ones_like(y)


def constant_column(x, y):
    return torch.cat([torch.full_like(x[:, :1], 3.0), x[:, 1:]], 1), y


def constant_columns(x, y):
    return torch.ones_like(x), y


EXTREMES = {
    "two rows": (2, 5, None),
    "two rows of one": (2, 1, None),
    "a constant target": (30, 5, constant_target),
    "a constant column": (30, 5, constant_column),
    "constant columns": (30, 5, constant_columns),
    "many columns": (20, 2000, None),
    "two rows of very many columns": (2, 20_000, None),
}


@pytest.mark.parametrize("prior", [R2D2(), Horseshoe(), R2D2.adaptive(), Gaussian()], ids=name)
@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_give_a_posterior(case, prior):
    n, p, change = EXTREMES[case]
    x, y = table(n, p)
    if change is not None:
        x, y = change(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fit says that a target or column does not vary
        posterior = fit(x, y, prior, epochs=40)
    assert torch.isfinite(posterior.sample(20)).all()
    assert torch.isfinite(posterior.predict(x).mean).all()


REFUSED = {
    "a hidden layer": (nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1)), {}, "one Linear layer"),
    "a known noise": (nn.Linear(5, 1), {"likelihood": rn.likelihoods.Gaussian(noise=0.1)}, "has a known one"),
    "another likelihood": (nn.Linear(5, 2), {"likelihood": rn.likelihoods.Heteroscedastic()}, "not Heteroscedastic"),
    "weights without a prior": (nn.Linear(5, 1), {"prior": {"bias": Gaussian()}}, "a prior on 'weight'"),
    "a frozen bias": (nn.Linear(5, 1), {"frozen": ["bias"]}, "'bias' is frozen"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_suit_is_refused_in_one_line(case):
    net, options, message = REFUSED[case]
    x, y = table()
    with pytest.raises(rn.ParameterError, match=message) as caught:
        rn.fit(rn.BayesianModel(net, **{"prior": R2D2(), **options}), (x, y), LinearGibbs(), verbose=False)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("algorithm=LinearGibbs ")


def test_counts_are_refused_in_one_line():
    model = rn.BayesianModel(nn.Linear(5, 1), R2D2(), rn.likelihoods.Poisson())
    with pytest.raises(
        rn.ParameterError, match=r"^algorithm=LinearGibbs needs a Gaussian, LogNormal, Bernoulli or Categorical"
    ):
        rn.fit(model, (table()[0], torch.ones(40, 1)), LinearGibbs(), verbose=False)


def test_a_prior_without_a_reversed_sweep_is_refused_in_one_line():
    class Unsaid(Horseshoe):
        gibbs_reversed = rn.priors.ScaleMixturePrior.gibbs_reversed

    x, y = table()
    with pytest.raises(rn.ParameterError, match=r"^algorithm=LinearGibbs needs the reversed sweep of .*Unsaid"):
        fit(x, y, Unsaid())
    with pytest.raises(rn.ParameterError, match=r"^prior=Unsaid.* has no reversed sweep"):
        Unsaid().gibbs_reversed(torch.ones(3), Unsaid().init_scales((3,)))


@pytest.mark.filterwarnings("ignore")  # torch says that there is nothing to initialise or to standardise
def test_no_column_is_refused_in_one_line():
    model = rn.BayesianModel(nn.Linear(0, 1), R2D2())
    with pytest.raises(rn.DataError, match=r"^x has shape \(5, 0\): give at least one input$"):
        rn.fit(model, (torch.zeros(5, 0), torch.randn(5, 1)), LinearGibbs(), verbose=False)


def test_one_row_that_is_part_of_a_larger_table_is_taken():
    x, y = table(3)
    both = torch.cat([x, y], 1)[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one row does not vary
        posterior = fit(both[:, :5], both[:, 5:], net=nn.Linear(5, 1, bias=False))
    assert torch.isfinite(posterior.predict(x).mean).all()


def test_one_row_beside_a_bias_is_refused_in_one_line():
    x, y = table(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(rn.DataError, match=r"^the data have 1 row: LinearGibbs needs two or more"):
            fit(x, y)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("chains", 0), ("mean_r2", 1.0), ("precision_r2", 0.0), ("noise_rate", -1.0), ("burn_in", 1.0), ("thin", 0)],
)
def test_settings_out_of_range_are_refused(argument, value):
    with pytest.raises(rn.ParameterError, match=f"^{argument}={value} "):
        LinearGibbs(**{argument: value})


def test_r_hat_is_large_for_chains_apart_and_one_for_a_constant():
    draws = torch.randn(4, 400, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    draws[0, :, 1] += 1
    draws[..., 2] = 7.0
    r_hat = split_r_hat(draws)
    assert r_hat[0] < 1.02
    assert r_hat[1] > 1.05
    assert r_hat[2] == 1
