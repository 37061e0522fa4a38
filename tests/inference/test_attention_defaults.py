"""Networks with attention get defaults of their own: without them a vision transformer ends as a constant."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import MAP, SVGI
from r2d2net.nets import ViT
from r2d2net.run.prepare import rows_of_step


def vit():
    torch.manual_seed(0)
    return ViT(1, 10, 8, patch=2, width=64, depth=2, heads=4)


class SelfAttention(nn.Module):
    """Known by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.softmax(self.query(x), -1) * self.value(x)


ENCODER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
HAVE = {"vit": vit(), "torch": ENCODER, "by name": nn.Sequential(SelfAttention(), nn.Linear(4, 1))}
HAVE_NOT = {
    "perceptron": rn.nets.mlp(3, [5], 1),
    "lenet": rn.nets.LeNet(),
    "norms": nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 1)),
}


@pytest.mark.parametrize("name", [*HAVE, *HAVE_NOT])
def test_defaults_depend_on_attention(name):
    has = name in HAVE
    model = rn.BayesianModel({**HAVE, **HAVE_NOT}[name])
    assert model.has_attention == has
    trainer = SVGI().build(model, n=500, steps=300)
    assert trainer.descent.largest_step == (0.03 if has else 0.3)
    assert trainer.warm_up == (1.0 if has else 0.6)
    assert (trainer.local is None) == (has or name == "lenet")
    assert SVGI(lr=0.2, warm_up=0.5).build(model, n=500, steps=300).descent.largest_step == 0.2
    assert MAP().build(model.with_prior(rn.priors.Gaussian()), n=9, steps=9).descent.largest_step == (
        0.03 if has else 0.3
    )
    assert rows_of_step(model, 1000) == (32 if has else 128)
    assert rows_of_step(model, 100) == 100
    state = trainer.init(torch.zeros(5, 1), torch.Generator().manual_seed(0))
    share = trainer.source(state).deviation() / model.he_scale()
    assert float(share.median()) < (0.011 if has else 0.11)
    assert float(share.median()) > (0.001 if has else 0.011)


def test_adapters_of_zero_beside_attention_start_as_wide_as_elsewhere():
    """With a tenth of it their prior kept a pretrained Transformer as it was, whatever the data said."""
    encoder = nn.Sequential(SelfAttention(), nn.Linear(4, 1))
    model = rn.BayesianModel(rn.adapters.lora(encoder, 2))
    trainer = SVGI(start="net").build(model, n=500, steps=300)
    state = trainer.init(torch.zeros(5, 1), torch.Generator().manual_seed(0))
    share = trainer.source(state).deviation() / model.he_scale()
    for slot in model.bayesian:
        own = slot.of(share)
        assert bool((own > 0.011).any()) == slot.name.endswith("up.weight"), slot.name


def test_frozen_attention_does_not_count():
    net = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).requires_grad_(False), nn.Linear(8, 1))
    assert not rn.BayesianModel(net).has_attention


@pytest.mark.slow
def test_a_vision_transformer_learns_digits_by_the_defaults():
    """1,000 rows, 40 epochs; seeds 0 and 1 had .89 and .92, and before these defaults .09."""
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    x, y = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:1000], order[1000:]
    model = rn.BayesianModel(vit(), likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x[train], y[train]), epochs=40, verbose=False)
    assert rn.metrics.accuracy(y[test], posterior.predict(x[test], draws=30).probs) > 0.85
