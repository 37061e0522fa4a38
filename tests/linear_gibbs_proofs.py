"""Tools that prove or refute a sweep of `linear_sweep`: exact draws of the joint law, Geweke's test, calibration.

    s ~ prior,   R2 ~ Beta(a, b),   sigma^2 ~ IG(a0, b0),   w_j ~ N(0, sigma^2 tau^2 q_j),   y ~ N(X w, sigma^2)

Many independent chains run side by side, each with its own column of y: so no statistic needs an autocorrelation.
"""

from itertools import combinations_with_replacement

import numpy as np
import torch
from scipy import stats

from r2d2net.inference import linear_sweep
from r2d2net.inference.linear_problem import EXACT, linear_problem
from r2d2net.inference.linear_sweep import Chains, Hyper

PRECISE_NOISE = (3.0, 2.0)  # an informative prior of the noise, so that the joint law has moments


def design(n, p, seed=5):
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(n, 1, generator=generator, dtype=EXACT)
    return 0.7 * torch.randn(n, p, generator=generator, dtype=EXACT) + 0.7 * common


def hyper_of(prior, a=1.0, b=1.0):
    return Hyper(prior, a, b, *PRECISE_NOISE)


def problem_of(x, y):
    return linear_problem(x, y, intercept=False)


def exact_draw(x, hyper, count, generator):
    """Independent draws of everything but y."""
    problem = problem_of(x, x[:, :1])
    chains = linear_sweep.first_chains(hyper, count, x.shape[1], generator)
    r2 = torch.distributions.Beta(hyper.a, hyper.b)
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(1 << 30, (), generator=generator)))
        share = r2.sample((count,)).to(EXACT)
        variance = hyper.noise_rate / torch.distributions.Gamma(hyper.noise_shape, 1.0).sample((count,)).to(EXACT)
    log_tau = (share.log() - torch.log1p(-share)).clamp(-20, 20) / 2
    log_g = log_tau - linear_sweep.log_total(problem, hyper, chains.scales) / 2
    deviation = (variance.log() / 2 + log_g).exp().unsqueeze(-1) * hyper.prior.variance(chains.scales).sqrt()
    weights = deviation * torch.randn(deviation.shape, generator=generator, dtype=EXACT)
    return chains._replace(weights=weights, variance=variance, log_g=log_g)


def data_given(x, chains, generator):
    """A column of y for each chain."""
    noise = torch.randn(len(x), len(chains.variance), generator=generator, dtype=EXACT)
    return x @ chains.weights.T + chains.variance.sqrt() * noise


def features(x, hyper, chains):
    """Bounded functions of the chain's state, of all its parts."""
    problem = problem_of(x, x[:, :1])
    variance = hyper.prior.variance(chains.scales).log()
    log_total = linear_sweep.log_total(problem, hyper, chains.scales)
    standard = chains.weights / chains.variance.sqrt().unsqueeze(-1)
    values = {
        "log tau": chains.log_g + log_total / 2,
        "log sigma": chains.variance.log() / 2,
        "w_1 / sigma": standard[:, 0],
        "log |w_1|": chains.weights[:, 0].abs().log(),
        "log |w_p / sigma|": standard[:, -1].abs().log(),
        "share_1": variance[:, 0] - log_total,
        "share_p": variance[:, -1] - log_total,
    }
    if hyper.prior.has_scales:
        values["log total"] = log_total
    return values


def geweke(x, hyper, *, chains=20_000, sweeps=8, seed=0, sweep=None):
    """The `largest_difference` between chains after some sweeps and exact draws."""
    generator = torch.Generator().manual_seed(seed)
    state = exact_draw(x, hyper, chains, generator)
    for _ in range(sweeps):
        problem = problem_of(x, data_given(x, state, generator))
        state = (sweep or linear_sweep.sweep)(problem, hyper, state, generator)
    after, before = (features(x, hyper, c) for c in (state, exact_draw(x, hyper, chains, generator)))
    return largest_difference(after, before)


def largest_difference(after, before):
    """Largest |z| over means and products of squashed features of chains, its name, and Bonferroni's p-value."""
    chains, columns = len(next(iter(before.values()))), []
    for values in (after, before):
        squashed = []
        for name, value in values.items():
            centre, spread = before[name].median(), before[name].sub(before[name].median()).abs().median() * 2
            squashed.append(torch.tanh((value - centre) / spread.clamp(min=1e-12)))
        columns.append(squashed)
    names, z = list(after), {}
    pairs = [(i,) for i in range(len(names))] + list(combinations_with_replacement(range(len(names)), 2))
    for pair in pairs:
        new, old = (torch.stack([squashed[i] for i in pair]).prod(0) for squashed in columns)
        error = ((new.var() + old.var()) / chains).sqrt().clamp(min=1e-300)
        z[" * ".join(names[i] for i in pair)] = float((new.mean() - old.mean()) / error)
    worst = max(z, key=lambda name: abs(z[name]))
    return abs(z[worst]), worst, min(1.0, len(z) * 2 * stats.norm.sf(abs(z[worst])))


def ranks(x, hyper, *, replications, draws=15, thin=8, burn_in=60, seed=0):
    """Ranks of the truth among posterior draws for each replication: log tau, log sigma, w_1, |w|^2, log likelihood."""
    generator = torch.Generator().manual_seed(seed)
    truth = exact_draw(x, hyper, replications, generator)
    y = data_given(x, truth, generator)
    problem = problem_of(x, y)

    def quantities(chains):
        residual = y.T - chains.weights @ x.T
        log_likelihood = -residual.square().sum(1) / chains.variance / 2 - len(x) * chains.variance.log() / 2
        log_tau = chains.log_g + linear_sweep.log_total(problem, hyper, chains.scales) / 2
        parts = (log_tau, chains.variance, chains.weights[:, 0], chains.weights.square().sum(1), log_likelihood)
        return torch.stack(parts, 1)

    chains = linear_sweep.start(
        problem, hyper, linear_sweep.first_chains(hyper, replications, x.shape[1], generator), generator
    )
    counts = torch.zeros(replications, 5, dtype=torch.int64)
    for k in range(burn_in + draws * thin):
        chains = linear_sweep.sweep(problem, hyper, chains, generator)
        if k >= burn_in and (k - burn_in) % thin == thin - 1:
            counts += quantities(chains) < quantities(truth)
    return counts.numpy()


def uniform_p_value(counts, draws=15):
    """Bonferroni's p-value that all ranks are uniform, by chi-square and Kolmogorov-Smirnov."""
    spread = np.random.default_rng(0).uniform(size=counts.shape)
    p_values = []
    for k in range(counts.shape[1]):
        cells = np.bincount(counts[:, k] // 2, minlength=(draws + 1) // 2)
        p_values.append(stats.chisquare(cells).pvalue)
        p_values.append(stats.kstest((counts[:, k] + spread[:, k]) / (draws + 1), "uniform").pvalue)
    return min(1.0, len(p_values) * min(p_values)), p_values


__all__ = [
    "Chains",
    "data_given",
    "design",
    "exact_draw",
    "features",
    "geweke",
    "hyper_of",
    "largest_difference",
    "ranks",
    "uniform_p_value",
]
