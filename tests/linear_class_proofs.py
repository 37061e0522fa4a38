"""Tools that prove or refute a sweep of `linear_classes`: exact draws of the joint law, Geweke's test, calibration.

    s ~ prior,   R2 ~ Beta(a, b),   w_kj ~ N(0, tau^2 q_kj),   b_k ~ N(0, s^2),   y_i ~ softmax(b + W x_i)

Many independent chains run side by side, each with labels of its own: so no statistic needs an autocorrelation.
"""

import math
from itertools import combinations_with_replacement

import torch
from scipy import stats

from r2d2net.inference import linear_classes, linear_sweep
from r2d2net.inference.linear_classes import ClassChains, class_problem
from r2d2net.inference.linear_problem import EXACT
from r2d2net.inference.linear_sweep import Hyper

LOGISTIC = math.log(math.pi / math.sqrt(3))


def class_hyper(prior, a=1.0, b=1.0, intercept_scale=2.0):
    return Hyper(prior, a, b, 1.0, 1.0, log_unit=LOGISTIC, intercept_scale=intercept_scale)


def problem_of(x, hits):
    return class_problem(x, hits, intercept=False)  # inputs as they are; the intercept is the sweep's


def exact_draw(x, hyper, logits, count, generator):
    """Independent draws of everything but the labels."""
    problem = problem_of(x, torch.zeros(1, logits, len(x)))
    rows = count * logits
    linear = linear_sweep.first_chains(hyper, rows, x.shape[1], generator)
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(1 << 30, (), generator=generator)))
        share = torch.distributions.Beta(hyper.a, hyper.b).sample((count,)).to(EXACT)
    log_tau = (share.log() - torch.log1p(-share)).clamp(-20, 20) / 2
    log_g = log_tau - linear_classes.class_log_total(problem, hyper, linear.scales) / 2
    log_g = log_g.repeat_interleave(logits)
    deviation = log_g.exp().unsqueeze(-1) * hyper.prior.variance(linear.scales).sqrt()
    weights = deviation * torch.randn(deviation.shape, generator=generator, dtype=EXACT)
    intercept = hyper.intercept_scale * torch.randn(rows, generator=generator, dtype=EXACT)
    return ClassChains(linear._replace(weights=weights, log_g=log_g), intercept)


def logits_of(x, chains, logits):
    """f of each chain, (chains, logits, n)."""
    fitted = chains.linear.weights @ x.T + chains.intercept.unsqueeze(-1)
    return fitted.unflatten(0, (-1, logits))


def labels_given(x, chains, logits, generator):
    """Hits of each chain's own labels, (chains, logits, n)."""
    outputs = logits_of(x, chains, logits)
    if logits == 1:
        return (torch.rand(outputs.shape, generator=generator, dtype=EXACT) < torch.sigmoid(outputs)).to(EXACT)
    gumbel = -torch.rand(outputs.shape, generator=generator, dtype=EXACT).log().neg().log()
    return torch.nn.functional.one_hot((outputs + gumbel).argmax(1), logits).mT.to(EXACT)


def features(x, hyper, chains, logits):
    """Functions of the chain's state, of all its parts."""
    problem = problem_of(x, torch.zeros(1, logits, len(x)))
    linear = chains.linear
    log_total = linear_sweep.log_total(problem, hyper, linear.scales)
    variance = hyper.prior.variance(linear.scales).log()
    outputs = logits_of(x, chains, logits)
    by_chain = lambda values: values.unflatten(0, (-1, logits))  # noqa: E731
    log_tau = by_chain(linear.log_g)[:, 0] + linear_classes.class_log_total(problem, hyper, linear.scales) / 2
    values = {
        "log tau": log_tau,
        "b_1": by_chain(chains.intercept)[:, 0],
        "w_11": by_chain(linear.weights)[:, 0, 0],
        "log |w_1p|": by_chain(linear.weights)[:, 0, -1].abs().log(),
        "f_11": outputs[:, 0, 0],
        "share_11": by_chain(variance - log_total.unsqueeze(-1))[:, 0, 0],
    }
    if logits > 1:
        values |= {
            "log |w_K1|": by_chain(linear.weights)[:, -1, 0].abs().log(),
            "f_11 - f_K1": outputs[:, 0, 0] - outputs[:, -1, 0],
            "w_Kp": by_chain(linear.weights)[:, -1, -1],
        }
    if hyper.prior.has_scales:
        values["log total"] = by_chain(log_total)[:, -1]
    return values


def class_geweke(x, hyper, logits, *, chains=4000, sweeps=5, seed=0, sweep=None):
    """Largest |z| over means and products of squashed features, its name, and Bonferroni's p-value."""
    generator = torch.Generator().manual_seed(seed)
    state = exact_draw(x, hyper, logits, chains, generator)
    for _ in range(sweeps):
        problem = problem_of(x, labels_given(x, state, logits, generator))
        state = (sweep or linear_classes.sweep)(problem, hyper, state, generator)
    fresh = exact_draw(x, hyper, logits, chains, generator)
    after, before = (features(x, hyper, drawn, logits) for drawn in (state, fresh))
    columns = []
    for values in (after, before):
        squashed = []
        for name, value in values.items():
            centre = before[name].median()
            spread = (before[name] - centre).abs().median() * 2
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


def class_ranks(x, hyper, logits, *, replications, draws=15, thin=8, burn_in=60, seed=0):
    """Ranks of the truth among posterior draws: log tau, b_1, w_11, |w|^2, log likelihood, f_11."""
    generator = torch.Generator().manual_seed(seed)
    truth = exact_draw(x, hyper, logits, replications, generator)
    hits = labels_given(x, truth, logits, generator)
    problem = problem_of(x, hits)

    def quantities(chains):
        outputs = logits_of(x, chains, logits)
        if logits == 1:
            log_p = (hits * outputs - torch.nn.functional.softplus(outputs)).sum((1, 2))
        else:
            log_p = (hits * torch.log_softmax(outputs, 1)).sum((1, 2))
        log_total = linear_classes.class_log_total(problem, hyper, chains.linear.scales)
        first = lambda values: values.unflatten(0, (-1, logits))[:, 0]  # noqa: E731
        weights = chains.linear.weights
        square = weights.square().sum(1).unflatten(0, (-1, logits)).sum(1)
        parts = (
            first(chains.linear.log_g) + log_total / 2,
            first(chains.intercept),
            first(weights)[:, 0],
            square,
            log_p,
        )
        return torch.stack((*parts, outputs[:, 0, 0] - (logits > 1) * outputs[:, -1, 0]), 1)

    chains = exact_draw(x, hyper, logits, replications, generator)
    chains = linear_classes.start(problem, hyper, chains, generator)
    counts = torch.zeros(replications, 6, dtype=torch.int64)
    for k in range(burn_in + draws * thin):
        chains = linear_classes.sweep(problem, hyper, chains, generator)
        if k >= burn_in and (k - burn_in) % thin == thin - 1:
            counts += quantities(chains) < quantities(truth)
    return counts.numpy()
