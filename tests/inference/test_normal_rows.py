"""Rows drawn a few at a time are those of one call of torch, to the bit."""

import pytest
import torch

import r2d2net as rn
from r2d2net.inference import normal_rows as module
from r2d2net.inference.normal_rows import normal_rows


@pytest.mark.parametrize(("rows", "size"), [(1, 5), (9, 31), (9, 32), (40, 33), (7, 1024), (50, 1007), (3, 5000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_are_one_call(rows, size, dtype, monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 2100)
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    blocks = list(normal_rows(rows, size, generators[0], dtype=dtype, device=torch.device("cpu")))
    whole = torch.empty(rows, size, dtype=dtype).normal_(generator=generators[1])
    assert torch.equal(torch.cat(blocks), whole)
    assert torch.equal(*(torch.rand(20, generator=generator) for generator in generators))  # and so is what follows
    if rows * size > 2 * 2100 and size >= 32:
        assert len(blocks) > 1


def test_predictions_do_not_depend_on_the_blocks(monkeypatch):
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    posterior = rn.fit(rn.BayesianModel(rn.nets.mlp(5, [20])), (x, x[:, 0]), epochs=2, seed=0, verbose=False)
    whole = posterior.outputs(x, 9)
    monkeypatch.setattr(module, "ENOUGH", 300)
    assert torch.equal(posterior.outputs(x, 9), whole)
    assert [len(drawn.weights) for drawn in posterior.source.draws(5)] == [2, 2, 1]
