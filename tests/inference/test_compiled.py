"""Compiled steps and sweeps against eager ones: the same numbers but for rounding, from the same noise."""

import shutil
from itertools import pairwise

import pytest
import torch

import r2d2net as rn
from r2d2net import cache_blocks
from r2d2net.errors import ParameterError

pytestmark = [
    pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a compiler"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # of what torch.compile imports
]


SLOW = pytest.mark.slow  # each waits for a compiler; the first of a kind is always run


@pytest.mark.parametrize(
    "prior",
    [pytest.param(rn.priors.R2D2(), id="default"), pytest.param(rn.priors.R2D2.paper(), id="paper", marks=SLOW)],
)
def test_compiled_sweeps_agree(prior, monkeypatch):
    """One sweep, as rounding decides a proposal once in a million times and then sets chains apart."""
    monkeypatch.setattr(cache_blocks, "PIECE", 500)  # eager noise is drawn block by block: blocks must agree
    g = torch.Generator().manual_seed(0)
    w, scales = torch.randn(1200, generator=g), prior.init_scales((1200,), g)
    found = []
    for compiled in (False, True):
        copied, precision = type(scales)(*(part.clone() for part in scales)), torch.empty(1200)
        drawn = prior.gibbs_(w, copied, precision, torch.Generator().manual_seed(1), compiled=compiled)
        found.append([part.clone() for part in (*drawn, precision)])  # what comes next overwrites them
        ascended = prior.cavi_(w.square(), drawn, precision, compiled=compiled)
        found[-1] += [*ascended, precision]
    for eager, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, eager, rtol=2e-4, atol=0)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("SVGI", {}),
        pytest.param("SVGI", {"estimator": "local"}, marks=SLOW),
        pytest.param("SVGI", {"variance": "scaled"}, marks=SLOW),
        pytest.param("CAVI", {"draws": 2, "clip": 1.0}, marks=SLOW),
        pytest.param("SVI", {}, marks=SLOW),
        pytest.param("Radial", {}, marks=SLOW),
    ],
    ids=str,
)
def test_compiled_steps_agree(algorithm, settings):
    """Before the first sweep: steps of at most 0.3 x 0.4 in float32, of which 20 add up."""
    g = torch.Generator().manual_seed(2)
    x, y = torch.randn(40, 5, generator=g), torch.randint(3, (40,), generator=g)
    net, found = rn.nets.mlp(5, [8], 3), []
    for compiled in (False, True):
        method = getattr(rn.inference, algorithm)(
            **{"compile": compiled, "sweep_every": 1000, "estimator": "weights", **settings}
        )
        model = rn.BayesianModel(net, rn.priors.R2D2(), rn.likelihoods.Categorical())
        running, generator = method.build(model, n=40, steps=100), torch.Generator().manual_seed(3)
        state = running.init(y, generator)
        for _ in range(20):
            state, _ = running.step(state, (x, y), generator)
        found.append((state.mean, state.rho))
    for eager, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, eager, rtol=1e-4, atol=1e-4)


def test_sweeps_do_not_depend_on_the_pieces_but_by_their_noise(monkeypatch):
    """Coordinate ascent has none."""
    prior, g = rn.priors.R2D2(), torch.Generator().manual_seed(4)
    moment, scales = torch.rand(1000, generator=g), prior.init_scales((1000,), g)
    found = []
    for size in (1 << 15, 300, 7):
        monkeypatch.setattr(cache_blocks, "PIECE", size)
        copied, precision = type(scales)(*(part.clone() for part in scales)), torch.empty(1000)
        found.append((*prior.cavi_(moment, copied, precision), precision))
    factors = prior.cavi(moment, scales)
    found.append((*factors.scales, factors.precision))
    for one, other in pairwise(found):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=0)


def test_gibbs_leaves_its_arguments_alone():
    prior, g = rn.priors.R2D2(), torch.Generator().manual_seed(5)
    scales = prior.init_scales((30, 4), g)
    before = [part.clone() for part in scales]
    prior.gibbs(torch.randn(30, 4, generator=g), scales, g)
    assert all(map(torch.equal, scales, before))


def test_weights_without_a_number_are_one_line():
    prior = rn.priors.R2D2()
    scales = prior.init_scales((2,))
    with pytest.raises(ParameterError, match=r"^w reaches from nan to nan: it must be finite$"):
        prior.gibbs(torch.tensor([1.0, float("nan")]), scales)


@pytest.mark.slow
def test_without_a_compiler_it_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, "no-such-compiler"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    prior = rn.priors.R2D2()
    scales = prior.init_scales((50,))
    with pytest.raises(ParameterError, match=r"^compile=True does not work here \(.*[cC]ompiler.*leave it out$"):
        prior.gibbs_(torch.ones(50), scales, torch.empty(50), compiled=True)
    torch.compiler.reset()


def test_scales_that_cannot_be_overwritten_are_one_line():
    prior = rn.priors.R2D2()
    scales = prior.init_scales((5, 4))
    turned = scales._replace(T=scales.T.T.contiguous().T)
    with pytest.raises(ParameterError, match=r"^T has strides \(1, 5\): to be overwritten it must be contiguous$"):
        prior.gibbs_(torch.ones(5, 4), turned, torch.empty(5, 4))
    with pytest.raises(ParameterError, match=r"^T has strides"):
        prior.cavi_(torch.ones(5, 4), turned, torch.empty(5, 4))


def test_gibbs_of_scales_in_any_order_of_memory():
    prior, g = rn.priors.R2D2(), torch.Generator().manual_seed(6)
    scales = prior.init_scales((5, 4), g)
    turned = scales._replace(T=scales.T.T.contiguous().T, psi=scales.psi.T.contiguous().T)
    found = [prior.gibbs(torch.ones(5, 4), one, torch.Generator().manual_seed(7)) for one in (scales, turned)]
    assert all(map(torch.equal, *found))
    assert not torch.equal(found[1].T, turned.T)


def test_draws_do_not_depend_on_the_number_of_threads():
    prior, found, before = rn.priors.R2D2(), [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            g = torch.Generator().manual_seed(8)
            scales = prior.init_scales((300_000,), g)
            found.append(prior.gibbs(torch.ones(300_000), scales, g).T)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)
