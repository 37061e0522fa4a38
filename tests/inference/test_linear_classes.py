"""LinearGibbs for classes against exact draws, simulation-based calibration, importance sampling and planted faults.

A Geweke test has 27 to 65 statistics; p-values are Bonferroni's. Sound sweeps must have p > 1e-3 at a pinned seed (a
false alarm in 1e-3 of the seeds), planted faults p < 1e-6.
"""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import r2d2net as rn
from linear_class_proofs import class_geweke, class_hyper, class_ranks, logits_of, problem_of
from linear_gibbs_proofs import design, uniform_p_value
from r2d2net.inference import LinearGibbs, linear_class_moves, linear_classes, linear_sweep
from r2d2net.inference.base import flatten
from r2d2net.inference.linear_spread import choose_spread, log_mean_sigmoid
from r2d2net.priors import R2D2, Gaussian, Horseshoe

DOUBLE = torch.float64
SOUND, FAULTY = 1e-3, 1e-6
REGIMES = [(6, 3), (3, 6)]
LOGITS = [1, 3]
PRIORS = [Gaussian(), R2D2(a_pi=0.5), Horseshoe(), R2D2.adaptive()]


def name(value):
    return type(value).__name__


# --- the sweep leaves the posterior invariant


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("logits", LOGITS)
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_sweeps_leave_the_joint_law_unchanged(prior, logits, shape):
    z, worst, p_value = class_geweke(design(*shape), class_hyper(prior), logits, chains=2000, sweeps=4)
    assert p_value > SOUND, (worst, z)


@pytest.mark.slow
@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("logits", LOGITS)
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_sweeps_of_many_chains_leave_the_joint_law_unchanged(prior, logits, shape):
    z, worst, p_value = class_geweke(design(*shape), class_hyper(prior, 0.8, 1.7), logits, chains=20_000, sweeps=8)
    assert p_value > SOUND, (worst, z)


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("logits", LOGITS)
def test_metropolis_steps_of_the_scale_leave_the_joint_law_unchanged(logits, shape, monkeypatch):
    monkeypatch.setattr(linear_sweep, "LARGEST_SPECTRUM", 0)
    hyper = class_hyper(R2D2(a_pi=0.5), 0.8, 1.7)
    z, worst, p_value = class_geweke(design(*shape), hyper, logits, chains=6000, sweeps=8)
    assert p_value > SOUND, (worst, z)


@pytest.mark.parametrize("logits", LOGITS)
def test_sweeps_without_intercept_leave_the_joint_law_unchanged(logits):
    hyper = class_hyper(R2D2(a_pi=0.5), intercept_scale=0.0)
    z, worst, p_value = class_geweke(design(4, 3), hyper, logits, chains=2000, sweeps=4)
    assert p_value > SOUND, (worst, z)


def with_jacobian(choose):
    """The density of log g at constant w / g, times a Jacobian that belongs to another parametrisation."""
    return lambda points, log_p, generator: choose(points, log_p + 3 * points, generator)


def stale_others(log_others):
    """What the other classes were before the last of them changed."""
    before = []

    def faulty(outputs, k):
        before.append(log_others(outputs, k))
        return before[-2:][0]

    return faulty


def half_shift(shift_all):
    def faulty(weights, log_variance, intercept, scale, generator):
        return shift_all(weights, log_variance + 1.0, intercept, scale, generator)

    return faulty


def without_others(log_others):
    return lambda outputs, k: torch.zeros_like(outputs[:, 0])


def without_scale_jacobian(density):
    return lambda hyper, log_tau: density(hyper, log_tau) - 2 * log_tau


def unweighted(draw):
    """Polya-Gamma variables of logits that are all 0."""
    return lambda z, generator: draw(torch.zeros_like(z), generator)


def without_stretch_jacobian(stretch):
    """The Jacobian of one dimension less than the weights and the intercept have."""

    def faulty(hits, layer, log_variance, scale, generator):
        choose = linear_class_moves._choose
        linear_class_moves._choose = lambda points, log_p, g: choose(points, log_p - points, g)
        try:
            stretch(hits, layer, log_variance, scale, generator)
        finally:
            linear_class_moves._choose = choose

    return faulty


FAULTS = {
    "a missing dimension in the Jacobian of a stretch": (linear_classes, "stretch_pairs", without_stretch_jacobian),
    "a Jacobian in the move at constant w / g": (linear_class_moves, "_choose", with_jacobian),
    "stale logits of the other classes": (linear_classes, "log_others", stale_others),
    "no logits of the other classes": (linear_classes, "log_others", without_others),
    "too wide a common shift": (linear_classes, "shift_all", half_shift),
    "no Jacobian of tau": (linear_sweep, "log_density", without_scale_jacobian),
    "Polya-Gamma variables without tilt": (linear_classes, "sample_polya_gamma", unweighted),
}

QUICK = ("no Jacobian of tau", "Polya-Gamma variables without tilt")  # the others are found in `make test-slow`


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAULTS]
)
def test_planted_faults_are_caught(fault, monkeypatch):
    module, function, plant = FAULTS[fault]
    monkeypatch.setattr(module, function, plant(getattr(module, function)))
    monkeypatch.setattr(linear_sweep, "LARGEST_SPECTRUM", 0)
    found = class_geweke(design(4, 3), class_hyper(Gaussian()), 3, chains=20_000, sweeps=8)
    assert found[2] < FAULTY, found


# --- calibration by simulation


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.parametrize("logits", LOGITS)
def test_ranks_of_the_truth_are_uniform(logits, shape):
    counts = class_ranks(design(*shape), class_hyper(R2D2(a_pi=0.5)), logits, replications=200, thin=6, burn_in=40)
    p_value, each = uniform_p_value(counts)
    assert p_value > SOUND, each


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*REGIMES, (12, 20), (20, 12)], ids=str)
@pytest.mark.parametrize("logits", LOGITS)
@pytest.mark.parametrize("prior", [R2D2(a_pi=0.5), Horseshoe()], ids=name)
def test_ranks_of_a_thousand_truths_are_uniform(prior, logits, shape):
    counts = class_ranks(design(*shape), class_hyper(prior), logits, replications=1000, thin=15, burn_in=150)
    p_value, each = uniform_p_value(counts)
    assert p_value > SOUND, each


# --- agreement with importance sampling, by formulas of its own


def by_importance(x, labels, logits, prior, a, b, scale, count, seed=0):
    """E[f] of every row with standard errors: everything from the prior, weighted by the likelihood."""
    n, p = x.shape
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    scales = prior.init_scales((count * logits, p), generator, groups=(count * logits, 1), dtype=DOUBLE)
    v = prior.variance(scales).numpy()
    r2 = rng.beta(a, b, count).clip(1e-12, 1 - 1e-12)
    total = (v @ np.square(x).mean(0)).reshape(count, logits).mean(1)
    variance = v * np.repeat(np.pi**2 / 3 * r2 / (1 - r2) / total, logits)[:, None]
    w = np.sqrt(variance) * rng.standard_normal((count * logits, p))
    f = (w @ x.T + scale * rng.standard_normal((count * logits, 1))).reshape(count, logits, n)
    both = np.concatenate([np.zeros_like(f), f], 1) if logits == 1 else f
    log_p = both - np.logaddexp.reduce(both, axis=1, keepdims=True)
    log_weight = log_p[:, labels, np.arange(n)].sum(1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    values = np.exp(log_p).reshape(count, -1)
    mean = weight @ values
    return mean, np.sqrt(np.square(weight) @ np.square(values - mean))


@pytest.mark.parametrize("shape", [(7, 3), (4, 6)], ids=str)
@pytest.mark.parametrize("logits", LOGITS)
def test_probabilities_agree_with_importance_sampling(logits, shape):
    """|z| below 4.5 for up to 21 probabilities: a false alarm in 1.5e-4 of the seeds."""
    n, p = shape
    x, labels = design(n, p), np.arange(n) % max(2, logits)
    prior = R2D2(a_pi=0.5)
    hyper = class_hyper(prior, 0.8, 1.3)
    expected, error = by_importance(x.numpy(), labels, logits, prior, 0.8, 1.3, 2.0, 400_000)
    hits = nn.functional.one_hot(torch.tensor(labels), max(2, logits)).T[-logits:]
    problem, generator = problem_of(x, hits[None]), torch.Generator().manual_seed(2)
    count, sweeps, burn_in = 200, 120, 30
    linear = linear_sweep.first_chains(hyper, count * logits, p, generator)
    chains = linear_classes.ClassChains(linear, torch.zeros(count * logits, dtype=DOUBLE))
    chains = linear_classes.start(problem, hyper, chains, generator)
    total = torch.zeros(count, n * max(2, logits), dtype=DOUBLE)
    for k in range(sweeps):
        chains = linear_classes.sweep(problem, hyper, chains, generator)
        if k >= burn_in:
            f = logits_of(x, chains, logits)
            f = torch.cat([torch.zeros_like(f), f], 1) if logits == 1 else f
            total += torch.softmax(f, 1).flatten(1)
    means = (total / (sweeps - burn_in)).numpy()
    own = means.std(0, ddof=1) / np.sqrt(count)
    z = (means.mean(0) - expected) / np.hypot(error, own)
    assert np.abs(z).max() < 4.5, (z, expected, means.mean(0))


# --- as an algorithm


def classes(n=60, p=5, number=3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, p, generator=generator)
    effects = 2 * torch.randn(p, number, generator=generator)
    return x + 3, (x @ effects + torch.randn(n, number, generator=generator)).argmax(1)


def fit(x, y, outputs, prior=None, method=None, likelihood=None, **options):
    likelihood = rn.likelihoods.Categorical() if likelihood is None else likelihood
    model = rn.BayesianModel(nn.Linear(x.shape[1], outputs), prior or Gaussian(), likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        return rn.fit(model, (x, y), method or LinearGibbs(), **{"epochs": 60, "verbose": False, **options})


@pytest.mark.parametrize("number", [2, 3, 5])
def test_classes_are_predicted(number):
    x, y = classes(number=number)
    posterior = fit(x, y, number, epochs=200)
    assert posterior.predict(x).probs.shape == (60, number)
    assert (posterior.predict(x).label == y).float().mean() > 0.75
    assert posterior.mean().shape == (6 * number,)


def test_two_classes_by_a_softmax_or_one_logit_have_one_posterior():
    x, y = classes(number=2)
    softmax = fit(x, y, 2).predict(x).probs
    logit = fit(x, y, 1, likelihood=rn.likelihoods.Bernoulli()).predict(x).probs
    torch.testing.assert_close(softmax, logit, rtol=1e-4, atol=1e-5)


def test_runs_resume_to_the_bit(tmp_path):
    x, y = classes(20, 30)
    alone = fit(x, y, 3, epochs=40)
    count = []

    def hook(module, _):
        count.append(1)
        if len(count) == 25:
            raise KeyboardInterrupt

    model = rn.BayesianModel(nn.Linear(30, 3), Gaussian(), rn.likelihoods.Categorical())
    handle = model.net.register_forward_pre_hook(hook)
    options = {"epochs": 40, "verbose": False, "resume": tmp_path}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            rn.fit(model, (x, y), LinearGibbs(), checkpoint_every=0, **options)
    handle.remove()
    resumed = fit(x, y, 3, **options)
    assert resumed.history == alone.history
    for key, tensor in flatten(alone.state).items():
        assert torch.equal(tensor, flatten(resumed.state)[key]), key


EXTREMES = {
    "one row": (1, 5, 2, lambda y: y),
    "two rows": (2, 5, 2, lambda y: torch.tensor([0, 1])),
    "a single class": (20, 5, 3, torch.zeros_like),
    "a class of one row": (20, 5, 3, lambda y: (torch.arange(20) == 4).long()),
    "separable and wide": (20, 300, 3, lambda y: y),
    "two rows of very many columns": (2, 20_000, 2, lambda y: torch.tensor([0, 1])),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_give_a_posterior(case):
    n, p, number, change = EXTREMES[case]
    x, y = classes(n, p, number)
    posterior = fit(x, change(y), number, R2D2(), epochs=20)
    assert torch.isfinite(posterior.sample(20)).all()
    assert torch.isfinite(posterior.predict(x).probs).all()


def test_one_output_for_a_softmax_is_refused_in_one_line():
    x, _ = classes()
    with pytest.raises(rn.ParameterError, match=r"^algorithm=LinearGibbs needs an output for each class"):
        fit(x, torch.zeros(60, dtype=torch.int64), 1)


# --- the spread of the draws


def test_wide_separable_classes_are_calibrated_and_exact_draws_are_kept(tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 2
    x = torch.randn(120, 300, generator=generator) + 0.2 * (2 * y - 1)[:, None]
    new, train = slice(60, None), slice(60)
    calibrated = fit(x[train], y[train], 2, epochs=150)
    exact = fit(x[train], y[train], 2, method=LinearGibbs(calibrate=False), epochs=150)
    assert calibrated.source.spread < 0.7
    assert exact.source.spread == 1
    assert torch.equal(calibrated.state.weights, exact.state.weights)
    losses = [-p.predict(x[new]).log_prob(y[new]).mean() for p in (calibrated, exact)]
    assert losses[0] < losses[1]
    calibrated.save(tmp_path)
    loaded = rn.load(tmp_path, nn.Linear(300, 2))
    assert loaded.source.spread == calibrated.source.spread
    assert torch.equal(loaded.sample(3, seed=0), calibrated.sample(3, seed=0))
    loaded.source = loaded.source.with_spread(1)
    assert torch.equal(loaded.sample(3, seed=0), exact.sample(3, seed=0))
    with pytest.raises(rn.ParameterError, match=r"^spread=2 "):
        loaded.source.with_spread(2)


def test_margins_that_are_right_as_they_are_keep_bayes_rule():
    """Margins of labels that were drawn with the very probabilities of the draws; six of seven draws favour c = 1."""
    generator = torch.Generator().manual_seed(0)
    rate = torch.randn(400, generator=generator, dtype=DOUBLE)
    truth = rate + 1.5 * torch.randn(400, generator=generator, dtype=DOUBLE)
    sign = 2.0 * (torch.rand(400, generator=generator, dtype=DOUBLE) < torch.sigmoid(truth)) - 1
    assert choose_spread((sign * rate).expand(50, -1), torch.full((50, 400), 2.25, dtype=DOUBLE)) == 1.0


def test_the_mean_sigmoid_of_a_normal_margin():
    mean, deviation = torch.meshgrid(
        *(torch.tensor(v, dtype=DOUBLE) for v in ([-9.0, 0.0, 2.0], [0.01, 1.0, 8.0])), indexing="ij"
    )
    fine = torch.linspace(-12, 12, 20_001, dtype=DOUBLE)
    values = torch.sigmoid(mean[..., None] + deviation[..., None] * fine) * torch.exp(-fine.square() / 2)
    expected = torch.trapezoid(values, fine) / np.sqrt(2 * np.pi)
    torch.testing.assert_close(log_mean_sigmoid(mean, deviation.square()), expected.log(), rtol=1e-6, atol=1e-6)
