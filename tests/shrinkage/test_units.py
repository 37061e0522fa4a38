"""Units cut out of networks: which tensors lose which entries, what is left of the posterior, saving and measures."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.errors import CheckpointError, ParameterError, PruningWarning
from r2d2net.nets.selected_linear import SelectedLinear
from r2d2net.shrinkage import load_smaller, prune, remove_units
from r2d2net.shrinkage.network_units import units_of
from r2d2net.shrinkage.units import plain_network


class Residual(nn.Module):
    """A stem whose channels a block adds to, a depthwise convolution, a pool and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(6, 5, 1), nn.ReLU(), nn.Conv2d(5, 6, 3, padding=1))
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(6 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.relu(self.depthwise(x + self.block(x)))
        return self.head(self.pool(x).flatten(1))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 7)
        self.hidden, self.out = nn.Linear(7, 6), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.hidden(self.embedding(x).mean(1))))


class Joined(nn.Module):
    """Two branches side by side, of which one half is used again."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 5), nn.Linear(4, 3)
        self.gate, self.out = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat([self.left(x), self.right(x)], 1).relu()
        return self.out(joined * torch.sigmoid(self.gate(x)))


def images(n: int = 40) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 2, 4, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def numbers(n: int = 200, inputs: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, inputs, generator=generator)
    return x, x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(n, generator=generator)


@pytest.fixture(scope="module")
def fitted() -> Any:
    net = rn.nets.mlp(6, [12, 8], 1, activation="tanh")
    return rn.fit(rn.BayesianModel(net), numbers(), "cavi", epochs=50, verbose=False)


def test_what_is_left_has_the_posterior_that_it_had(fitted: Any) -> None:
    smaller = remove_units(fitted, numbers()[0], keep={"0": 4, "2": 3})
    assert [tuple(p.shape) for p in smaller.net.parameters()] == [(4, 6), (4,), (3, 4), (3,), (1, 3), (1,)]
    deviations = fitted.named(fitted.source.deviation())
    own = smaller.posterior.named(smaller.posterior.source.deviation())
    means = fitted.named(fitted.mean())
    left = smaller.posterior.named(smaller.posterior.mean())
    for layer in ("0", "2"):
        for old, new in ((means, left), (deviations, own)):
            rows = {tuple(row) for row in torch.cat([old[f"{layer}.bias"][:, None]], 1).tolist()}
            assert {tuple(row) for row in new[f"{layer}.bias"][:, None].tolist()} <= rows
    columns = [means["4.weight"][0].tolist().index(value) for value in left["4.weight"][0].tolist()]
    torch.testing.assert_close(own["4.weight"], deviations["4.weight"][:, columns])
    scales = smaller.posterior.state.scales["2.weight"]
    assert scales.T.shape == (3, 4)
    assert scales.xi.shape == ()
    assert isinstance(smaller.net, type(fitted.model.net))


def test_intervals_are_intact_where_units_say_nothing(fitted: Any) -> None:
    """Units whose fan-out is zero in every draw leave without a trace, draw by draw."""
    x, _ = numbers()
    pruned = prune(fitted, ratio=12)
    smaller = remove_units(pruned, x, threshold=1e-12)
    assert smaller.weights < 60
    assert smaller.ratio == pytest.approx(176 / smaller.weights)
    ours, whole = smaller.posterior.predict(x, draws=400), pruned.predict(x, draws=400)
    torch.testing.assert_close(ours.mean, whole.mean, rtol=0.02, atol=0.03)  # other draws: four errors of 400
    torch.testing.assert_close(ours.std, whole.std, rtol=0.15, atol=0.01)
    mean = [each.predict(x, draws="mean").mean for each in (pruned, smaller.posterior)]
    torch.testing.assert_close(mean[0], mean[1], rtol=1e-4, atol=1e-4)


def test_auto_and_inputs(fitted: Any) -> None:
    x, y = numbers()
    smaller = remove_units(fitted, x, "auto", validation=(x, y))
    whole, cut = (each.predict(x, draws=20).log_prob(y).double() for each in (fitted, smaller.posterior))
    assert float(cut.mean()) >= float(whole.mean() - whole.std() / len(y) ** 0.5)
    first = smaller.net[0]
    assert isinstance(first, SelectedLinear)
    assert {0, 1} <= set(first.kept.tolist())
    assert "inputs of 0" in str(smaller)
    assert not isinstance(remove_units(fitted, x, threshold=5.0, inputs=False).net[0], SelectedLinear)


@pytest.mark.parametrize(
    ("net", "rows", "keep", "shapes"),
    [
        (Residual, images, {"stem.0": 4, "block.0": 2}, {"stem.0": (4, 2, 3, 3), "block.2": (4, 2, 3, 3)}),
        (Residual, images, {"block.2": 3}, {"stem.0": (3, 2, 3, 3), "depthwise": (3, 1, 3, 3), "head": (3, 12)}),
        (Joined, lambda: numbers(40, 4), {"left": 2, "right": 1}, {"gate": (3, 4), "out": (2, 3)}),
    ],
)
def test_networks_with_branches(net: Any, rows: Any, keep: Any, shapes: Any) -> None:
    """Only the numbers are at stake: `remove_units` itself compares outputs with those of the whole network."""
    x, y = rows()
    likelihood = rn.likelihoods.Categorical() if net is Residual else rn.likelihoods.Gaussian()
    y = y if net is Residual else torch.stack([y, -y], 1)
    posterior = rn.fit(rn.BayesianModel(net(), likelihood=likelihood), (x, y), "cavi", epochs=2, verbose=False)
    smaller = remove_units(posterior, x, keep=keep)
    for layer, shape in shapes.items():
        assert smaller.net.get_submodule(layer).weight.shape == shape
    assert smaller.posterior.predict(x[:5]).mean.shape == posterior.predict(x[:5]).mean.shape


def test_flattened_images_lose_single_positions() -> None:
    x, y = images()
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    model = rn.BayesianModel(net, rn.priors.GroupR2D2(groups="filters"), rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x, y), "cavi", epochs=5, verbose=False)
    scores = rn.shrinkage.weight_scores.weight_scores(posterior, "saliency")
    columns = posterior.named(scores)["3.weight"].sum(0)
    smaller = remove_units(posterior, x, threshold=float(columns.median()))
    head = smaller.net[3]
    assert isinstance(head, SelectedLinear)
    assert 1 <= head.in_features <= 33
    assert smaller.posterior.state.scales["3.weight"].T.shape == (1, head.in_features)
    again = remove_units(smaller.posterior, x, threshold=float(columns.quantile(0.8)))
    assert again.net[3].in_features < head.in_features


def test_saved_loaded_and_cut_again(fitted: Any, tmp_path: Any) -> None:
    x, _ = numbers()
    smaller = remove_units(fitted, x, threshold=1.0)
    again = remove_units(smaller.posterior, x, keep={"2": 1})
    again.save(tmp_path)
    loaded = load_smaller(tmp_path, rn.nets.mlp(6, [12, 8], 1, activation="tanh"))
    assert torch.equal(loaded.predict(x).samples, again.posterior.predict(x).samples)
    assert str(loaded.model.net) == str(again.net)
    with pytest.raises(CheckpointError, match="is of another network"):
        load_smaller(tmp_path, rn.nets.mlp(6, [1, 8], 1))
    with pytest.raises(CheckpointError, match=r"smaller.json is not there"):
        load_smaller(tmp_path / "no", rn.nets.mlp(6, [12, 8], 1))


def test_stored_draws_are_cut_draw_by_draw() -> None:
    x, y = numbers(60)
    net = rn.nets.mlp(6, [8], 1)
    posterior = rn.fit(rn.BayesianModel(net), (x, y), "sghmc", epochs=40, verbose=False)
    smaller = remove_units(posterior, x, keep={"0": 3}, score="magnitude")
    assert smaller.posterior.source.available == posterior.source.available
    old, new = posterior.source.state.weights, smaller.posterior.source.state.weights
    assert set(new[0, 0].tolist()) <= set(old[0, 0].tolist())
    chains = rn.fit(rn.BayesianModel(net), (x, y), "mclmc", epochs=3, verbose=False)
    line = r"posterior=Collection is of several solutions .* are no network: fit the model by svgi or cavi"
    for cut in (lambda: remove_units(chains, x, keep={"0": 3}, score="magnitude"), lambda: prune(chains, ratio=2)):
        with pytest.raises(ParameterError, match=line):
            cut()


def test_embeddings_lose_dimensions() -> None:
    x = torch.randint(0, 11, (50, 4), generator=torch.Generator().manual_seed(0))
    y = (x == 3).float().sum(1)
    posterior = rn.fit(rn.BayesianModel(Words()), (x, y), "cavi", epochs=2, standardize=False, verbose=False)
    smaller = remove_units(posterior, x, keep={"embedding": 3, "hidden": 2})
    assert smaller.net.embedding.weight.shape == (11, 3)
    assert smaller.net.hidden.weight.shape == (2, 3)


def test_what_cannot_be_cut_is_kept_and_said() -> None:
    x, y = numbers(60)
    net = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    posterior = rn.fit(rn.BayesianModel(net), (x, y), "cavi", epochs=3, verbose=False)
    with pytest.raises(ParameterError, match=r"5 units of '0' stay \(1 \(LayerNorm\)\)"):
        remove_units(posterior, x, keep={"0": 2})
    cut = remove_units(posterior, x, keep={"2": 2})
    assert "kept: 1 (LayerNorm)" in str(cut)
    twice = nn.Linear(6, 6)
    tied = nn.Sequential(twice, nn.ReLU(), twice, nn.Linear(6, 1))
    assert "used more than once" in " ".join(units_of(tied, x[:2]).locked.values())


def test_a_layer_keeps_its_best_unit_and_says_so(fitted: Any) -> None:
    with pytest.warns(PruningWarning, match="0 would have lost all 12 units and keeps its best"):
        smaller = remove_units(fitted, numbers()[0], threshold=1e9)
    assert [row.after for row in smaller.layers] == [1, 1, 1, 1]
    assert smaller.posterior.predict(numbers()[0]).mean.shape == (200,)


def test_measures_compare_both_networks(fitted: Any) -> None:
    smaller = remove_units(fitted, numbers()[0], keep={"0": 4, "2": 3})
    found = {row.quantity: row for row in smaller.measure(numbers()[0], repeats=2)}
    assert (found["parameters"].before, found["parameters"].after) == (197, 47)
    assert (found["operations of a row"].before, found["operations of a row"].after) == (352, 78)
    assert found["bytes"].after < found["bytes"].before
    assert found["ms, 200 rows"].after > 0


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) if x.sum() > 0 else self.b(self.a(-x))


class FixedSize(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)).view(-1, 4))


def test_networks_that_cannot_be_traced_or_name_sizes() -> None:
    x, y = numbers(40)
    posterior = rn.fit(rn.BayesianModel(Branching()), (x, y), "cavi", epochs=1, verbose=False)
    with pytest.raises(ParameterError, match=r"net cannot be traced by torch.fx: symbolically traced variables cannot"):
        remove_units(posterior, x)
    posterior = rn.fit(rn.BayesianModel(FixedSize()), (x, y), "cavi", epochs=1, verbose=False)
    with pytest.raises(ParameterError, match=r"4 units of 'a' stay \(view"):
        remove_units(posterior, x, keep={"a": 2})


def test_a_bare_layer_has_no_units() -> None:
    posterior = rn.fit(rn.BayesianModel(nn.Linear(6, 1)), numbers(40), "cavi", epochs=1, verbose=False)
    with pytest.raises(ParameterError, match="net has no layers inside"):
        remove_units(posterior, numbers()[0])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"threshold": -1.0}, "threshold=-1.0 is out of range: use a number from 0, such as 0.5"),
        ({"keep": {"9": 1}}, "keep names no layer '9': the layers are '0', '2', '4'"),
        ({"keep": {"0": 13}}, "keep={'0': 13} is out of range: the layer has 12 units"),
        ({"keep": {"0": 0}}, "keep=0 is out of range: use a whole number from 1"),
        ({"keep": {"0": 1}, "threshold": 1.0}, "takes one of 'auto', threshold and keep: leave the others out"),
        ({"how": "auto"}, "how='auto' needs validation rows: give validation=(x, y)"),
    ],
)
def test_bad_input_is_one_line(fitted: Any, arguments: Any, line: str) -> None:
    with pytest.raises(ParameterError) as caught:
        remove_units(fitted, numbers()[0], **arguments)
    assert str(caught.value) == line


def test_the_check_notices_a_wrong_cut(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from r2d2net.shrinkage import units

    def wrong(net: Any, kept: Any, selected: Any) -> Any:
        kept = {name: {d: p.flip(0) if d == 1 else p for d, p in dims.items()} for name, dims in kept.items()}
        return original(net, kept, selected)

    original = units.cut_network
    monkeypatch.setattr(units, "cut_network", wrong)
    with pytest.raises(ParameterError, match="computes something else with fewer units"):
        remove_units(fitted, numbers()[0], keep={"0": 4})
    assert plain_network(fitted)(torch.zeros(1, 6)).shape == (1, 1)


class Attentive(nn.Module):
    """Attention without an encoder layer around it; its weights are used on request."""

    def __init__(self, *, uses_weights: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 4, batch_first=True)
        self.head, self.uses_weights = nn.Linear(8, 1), uses_weights

    def forward(self, x: Tensor) -> Tensor:
        out, weights = self.attention(x, x, x)
        out = self.head(out.mean(1))
        return out + weights.mean((1, 2)).unsqueeze(1) if self.uses_weights else out


def encoder(layers: int = 2) -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 4, 12, dropout=0.0, batch_first=True)
    body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return nn.Sequential(body, nn.Flatten(), nn.Linear(5 * 8, 1))


def sentences(n: int = 60) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 5, 8, generator=torch.Generator().manual_seed(0))
    return x, x[:, 0, 0]


@pytest.mark.parametrize("draws", ["cavi", "sghmc"])
def test_heads_and_hidden_units_of_an_encoder_go(draws: str, tmp_path: Any) -> None:
    x, y = sentences()
    epochs = 3 if draws == "cavi" else 40
    posterior = rn.fit(rn.BayesianModel(encoder()), (x, y), draws, epochs=epochs, verbose=False)
    score: Any = "saliency" if draws == "cavi" else "magnitude"
    keep = {"0.layers.0.self_attn": 1, "0.layers.1.self_attn": 3, "0.layers.0.linear1": 5}
    smaller = remove_units(posterior, x, keep=keep, score=score)
    shapes = {name: tuple(p.shape) for name, p in smaller.net.named_parameters()}
    assert shapes["0.layers.0.self_attn.in_proj_weight"] == (6, 8)
    assert shapes["0.layers.0.self_attn.out_proj.weight"] == (8, 2)
    assert shapes["0.layers.1.self_attn.in_proj_bias"] == (18,)
    assert shapes["0.layers.0.linear2.weight"] == (8, 5)
    assert smaller.posterior.predict(x[:7]).mean.shape == (7,)
    if draws == "cavi":
        again = remove_units(smaller.posterior, x, keep={"0.layers.1.self_attn": 2})
        again.save(tmp_path)
        loaded = load_smaller(tmp_path, encoder())
        assert torch.equal(loaded.predict(x).samples, again.posterior.predict(x).samples)


def test_a_head_whose_values_say_nothing_goes() -> None:
    x, y = sentences()
    posterior = rn.fit(rn.BayesianModel(Attentive()), (x, y), "cavi", epochs=2, verbose=False)
    state = posterior.source.state
    slots = {slot.name: slot for slot in posterior.model.bayesian}
    slots["attention.in_proj_weight"].of(state.mean)[16 + 2 : 16 + 4] = 0.0  # values of the second head
    found = remove_units(posterior, x, keep={"attention": 3})
    kept = found.net.attention.in_proj_weight
    whole = plain_network(posterior).attention.in_proj_weight
    rows = torch.tensor([0, 1, 4, 5, 6, 7])
    torch.testing.assert_close(kept, whole[torch.cat([rows, 8 + rows, 16 + rows])])


def test_attention_that_cannot_be_cut_is_kept_and_said() -> None:
    x, y = sentences()
    posterior = rn.fit(rn.BayesianModel(Attentive(uses_weights=True)), (x, y), "cavi", epochs=1, verbose=False)
    with pytest.raises(ParameterError, match=r"4 units of 'attention' stay \(attention whose weights are used\)"):
        remove_units(posterior, x, keep={"attention": 2})


class Masked(nn.Module):
    """An encoder whose heads have each a mask, or whose keys are padded."""

    def __init__(self, *, alone: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 4, 12, dropout=0.0, batch_first=True)
        self.body = layer if alone else nn.TransformerEncoder(layer, 2)  # nested tensors, as torch has by default
        self.head = nn.Linear(5 * 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        each = torch.ones(5, 5).triu(1).bool().repeat(4 * x.shape[0], 1, 1)
        return self.head(self.body(x, each).flatten(1))


class Padded(Masked):
    """An encoder of padded rows."""

    def forward(self, x: Tensor) -> Tensor:
        gone = (torch.arange(5) == 4).repeat(x.shape[0], 1)
        return self.head(self.body(x, src_key_padding_mask=gone).flatten(1))


@pytest.mark.parametrize("alone", [False, True])
def test_heads_of_an_encoder_with_a_mask_each_are_kept_and_said(alone: bool) -> None:
    x, y = sentences()
    posterior = rn.fit(rn.BayesianModel(Masked(alone=alone)), (x, y), "cavi", epochs=1, verbose=False)
    layer = "body" if alone else "body.layers.0"
    with pytest.raises(ParameterError, match=r"4 units of .* stay \(attention with a mask for each head\)"):
        remove_units(posterior, x, keep={f"{layer}.self_attn": 2})
    smaller = remove_units(posterior, x, keep={f"{layer}.linear1": 5})
    assert next(row for row in smaller.layers if row.layer == f"{layer}.self_attn").after == 4


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # of the whole network, from torch
def test_an_encoder_with_nested_tensors_runs_on_padded_rows(tmp_path: Any) -> None:
    x, y = sentences()
    posterior = rn.fit(rn.BayesianModel(Padded()), (x, y), "cavi", epochs=1, verbose=False)
    smaller = remove_units(posterior, x, keep={"body.layers.1.self_attn": 2})
    smaller.save(tmp_path)
    net = plain_network(load_smaller(tmp_path, Padded()))
    with torch.no_grad():
        torch.testing.assert_close(net(x), smaller.net(x))
