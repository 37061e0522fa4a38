"""Simulation-based calibration (Talts et al., 2018) of HMC with the R2D2 prior on two weights.

    w ~ R2D2,   y | w ~ N(x w, 1),   w_1, ..., w_L ~ HMC(y):    the rank of f(w) among f(w_1), ..., f(w_L) is uniform

for every f: here either weight, and the log likelihood, which alone sees whether the data were used at all. Ranks are
uniform on 0, ..., L if draws are independent of each other and of the chain's start, hence the thinning.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import r2d2net as rn
from r2d2net.inference import HMC
from r2d2net.priors import R2D2
from r2d2net.run.global_generator import lent_generator

DOUBLE = torch.float64
DRAWS, THIN, WARM_UP = 15, 5, 45
STEPS = WARM_UP + THIN * DRAWS
QUANTITIES = ("w_1", "w_2", "log likelihood")


def replication(number, scales):
    """The ranks of the truth among the draws, one for each quantity."""
    g = torch.Generator().manual_seed(number)
    prior, x = R2D2(0.6, 1.0), design()
    w = prior.sample((2,), g, dtype=DOUBLE)
    y = x @ w + torch.randn(len(x), generator=g, dtype=DOUBLE)
    model = rn.BayesianModel(nn.Linear(2, 1, bias=False, dtype=DOUBLE), prior, rn.likelihoods.Gaussian(noise=1.0))
    chain = HMC(chains=1, burn_in=WARM_UP / STEPS, thin=THIN, scales=scales).build(model, n=len(y), steps=STEPS)
    state = chain.init(y[:, None], g)
    with lent_generator(number, torch.device("cpu")):
        for _ in range(STEPS):
            state, _ = chain.step(state, (x, y[:, None]), g)
    drawn = state.kept.draws.weights[: int(state.kept.number)]
    assert len(drawn) == DRAWS

    def quantities(w):
        return torch.cat([w, -0.5 * (y - w @ x.T).square().sum(-1, keepdim=True)], -1)

    return (quantities(drawn) < quantities(w)).sum(0).numpy()


def design():
    """Six rows of two correlated inputs."""
    return torch.tensor([[1.0, 0.6], [-0.4, 0.2], [0.3, -1.1], [1.2, 0.9], [-0.9, -0.5], [0.1, 0.4]], dtype=DOUBLE)


def p_values(ranks):
    """Of uniformity, by chi-square over the ranks and by Kolmogorov-Smirnov over ranks spread evenly in their cells."""
    spread = np.random.default_rng(0).uniform(size=ranks.shape)
    found = {}
    for k, name in enumerate(QUANTITIES):
        counts = np.bincount(ranks[:, k], minlength=DRAWS + 1)
        found[name, "chi-square"] = stats.chisquare(counts).pvalue
        found[name, "KS"] = stats.kstest((ranks[:, k] + spread[:, k]) / (DRAWS + 1), "uniform").pvalue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("scales", "replications"), [("gibbs", 1000), ("joint", 200)])
def test_ranks_are_uniform(scales, replications):
    """Six p-values above 1e-3: a false alarm in 6e-3 of seeds, of which this one is pinned."""
    ranks = np.stack([replication(number, scales) for number in range(replications)])
    found = p_values(ranks)
    assert min(found.values()) > 1e-3, found
