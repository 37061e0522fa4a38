"""Sweeps of a layer part by part are those of the whole layer."""

from __future__ import annotations

import pytest
import torch

from r2d2net import cache_blocks
from r2d2net.priors import R2D2, Gaussian, Horseshoe, SpikeSlab
from r2d2net.priors.layer_parts import is_divisible

CUT, SIZE = 128, 200  # at a block of the whole layer


@pytest.mark.parametrize("prior", [R2D2(), R2D2.from_r2(), R2D2.paper()])
def test_parts_have_the_numbers_of_the_whole_layer(prior, monkeypatch) -> None:
    """Gibbs sweeps by one generator and coordinate ascent; only the order of the sum differs."""
    monkeypatch.setattr(cache_blocks, "PIECE", 64)
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(SIZE, generator=generator)
    start = prior.init_scales((SIZE,), generator)
    parts = [slice(0, CUT), slice(CUT, SIZE)]
    for kind in ("gibbs", "cavi"):
        whole = start._replace(T=start.T.clone(), psi=start.psi.clone())
        pieces = [start._replace(T=start.T[part].clone(), psi=start.psi[part].clone()) for part in parts]
        precision, in_parts = torch.empty(SIZE), torch.empty(SIZE)
        one, other = (torch.Generator().manual_seed(1) for _ in range(2))
        if kind == "gibbs":
            whole = prior.gibbs_(w, whole, precision, one)
            sums = [
                prior.gibbs_local_(w[part], own, in_parts[part], other) for part, own in zip(parts, pieces, strict=True)
            ]
            state = other.get_state()
            for k, own in enumerate(pieces):
                other.set_state(state)
                pieces[k] = prior.gibbs_shared(own, sums[0] + sums[1], SIZE, other)
        else:
            second = w.square() + 0.1
            whole = prior.cavi_(second, whole, precision)
            sums = [
                prior.cavi_local_(second[part], own, in_parts[part]) for part, own in zip(parts, pieces, strict=True)
            ]
            pieces = [prior.cavi_shared(own, sums[0] + sums[1], SIZE) for own in pieces]
        torch.testing.assert_close(torch.cat([own.T for own in pieces]), whole.T)
        torch.testing.assert_close(torch.cat([own.psi for own in pieces]), whole.psi)
        torch.testing.assert_close(in_parts, precision)
        for own in pieces:
            torch.testing.assert_close(own.xi, whole.xi)
            torch.testing.assert_close(own.rate, whole.rate)


def test_which_layers_can_be_cut() -> None:
    class Other(R2D2):
        def gibbs_(self, *arguments, **named):
            return super().gibbs_(*arguments, **named)

    found = [is_divisible(prior) for prior in (R2D2(), Gaussian(), Horseshoe(), SpikeSlab(), R2D2.adaptive(), Other())]
    assert found == [True, True, False, False, False, False]
