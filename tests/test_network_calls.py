"""Inputs by name, outputs of every form, wrappers, masks, checkpointing, dtypes: each works or is one line."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import r2d2net as rn
from r2d2net.inference import HMC, MAP, MCLMC, SGLD, SVGI
from r2d2net.likelihoods import Categorical
from r2d2net.network_calls import pick
from r2d2net.priors import Gaussian

G = torch.Generator().manual_seed(0)
IDS = torch.randint(0, 7, (30, 5), generator=G)
MASK = (IDS > 0).long()
Y = IDS[:, 0] % 3
X = torch.randn(30, 3, generator=G)


@dataclass
class Out:
    logits: Tensor
    hidden: Tensor


class Text(nn.Module):
    """Takes its inputs by name alone, and returns a dataclass."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(7, 4, padding_idx=0), nn.Linear(4, 3)

    def forward(self, *, input_ids, attention_mask):
        hidden = (self.embedding(input_ids) * attention_mask[..., None]).sum(1)
        return Out(self.head(hidden), hidden)


class Items(Dataset):
    def __init__(self, pairs=False):
        self.pairs = pairs

    def __len__(self):
        return 30

    def __getitem__(self, i):
        x = {"input_ids": IDS[i], "attention_mask": MASK[i]}
        return (x, Y[i]) if self.pairs else {**x, "labels": Y[i]}


NAMED = {"input_ids": IDS, "attention_mask": MASK}
DATA = {
    "pair": (NAMED, Y),
    "dict": {**NAMED, "labels": Y},
    "dataset": Items(),
    "dataset of pairs": Items(pairs=True),
    "loader": DataLoader(Items(), batch_size=7),
    "tuple": ((IDS, MASK), Y),
}


def text(**options):
    return rn.BayesianModel(Text(), likelihood=Categorical(), **options)


@pytest.mark.parametrize("kind", DATA)
def test_inputs_by_name(kind, tmp_path):
    model = text(inputs=tuple(NAMED)) if kind == "tuple" else text()
    posterior = rn.fit(model, DATA[kind], epochs=2, validation=(NAMED, Y), verbose=False)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, Text())
    expected = posterior.predict(NAMED, 4).mean
    turned = {"extra": X, "attention_mask": MASK, "input_ids": IDS}
    for x in (turned, (IDS, MASK), Items(), Items(pairs=True), DataLoader(Items(), batch_size=4)):
        assert torch.equal(again.predict(x, 4).mean, expected)
    assert model.inputs is None or kind == "tuple"  # fit does not change the model


def test_names_leave_the_rest_of_a_dict_out():
    data = {**NAMED, "token_type_ids": 0 * IDS, "labels": Y}
    with pytest.raises(rn.DataError, match=r"net does not take x .*unexpected keyword argument 'token_type_ids'"):
        rn.fit(text(), data, epochs=1, verbose=False)
    rn.fit(text(inputs=tuple(NAMED)), data, epochs=1, verbose=False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (NAMED, "data has entries input_ids, attention_mask and no 'labels': give targets under that name"),
        (({"input_ids": IDS}, Y), "net does not take x"),
        (((IDS, MASK, MASK), Y), "x has 3 inputs, the network takes 2: give input_ids, attention_mask"),
        (({"ids": IDS}, Y), "x has entries ids and no 'input_ids': give it"),
        (({**NAMED, "input_ids": IDS[:9]}, Y), r"x has \[9, 30\] rows and y has 30"),
    ],
)
def test_wrong_names_are_one_line(data, message):
    model = text() if message.startswith("net") else text(inputs=tuple(NAMED))
    with pytest.raises(rn.DataError, match=message) as caught:
        rn.fit(model, data, epochs=1, verbose=False)
    assert "\n" not in str(caught.value)
    if not message.startswith(("net", "data")):
        posterior = rn.fit(text(inputs=tuple(NAMED)), DATA["pair"], epochs=1, verbose=False)
        if "rows" not in message:
            with pytest.raises(rn.DataError):
                posterior.predict(data[0])


@pytest.mark.parametrize("inputs", [(), ("a", "a"), (1,)])
def test_names_that_are_none(inputs):
    with pytest.raises(rn.ParameterError, match="inputs="):
        text(inputs=inputs)


# --- outputs

T, U = torch.zeros(2), torch.ones(2)
Named = namedtuple("Named", ["first", "second"])


@pytest.mark.parametrize(
    ("output", "which", "found"),
    [
        (T, None, T),
        ((T, U), None, T),
        ([T, U], 1, U),
        ({"logits": U, "h": T}, None, U),
        (OrderedDict(h=T, logits=U), 0, T),
        ({"only": U, "text": "a"}, None, U),
        (Out(T, U), None, T),
        (Out(T, U), "hidden", U),
        (Named(T, U), "second", U),
        (Out(T, U), lambda out: out.hidden, U),
    ],
)
def test_picked_outputs(output, which, found):
    assert pick(output, which) is found


@pytest.mark.parametrize(
    ("output", "which", "message"),
    [
        ({"a": T, "b": U}, None, "net returns dict: give BayesianModel output='a', or another of a, b"),
        (Out(T, U), "scores", "output='scores': net returns Out, of which this is no tensor"),
        ((T, U), 2, "output=2: net returns tuple"),
        (None, None, "net returns NoneType: wrap it"),
        ((("a", T),), None, "net returns tuple: wrap it"),
    ],
)
def test_no_output_is_one_line(output, which, message):
    with pytest.raises(rn.ParameterError, match=message):
        pick(output, which)


def second(output):
    return output.hidden


@pytest.mark.parametrize("output", ["hidden", second])
def test_the_output_is_saved_by_name_or_handed_over(output, tmp_path):
    posterior = rn.fit(text(output=output), DATA["pair"], epochs=1, verbose=False)
    assert posterior.predict(NAMED, 2).mean.shape == (30, 4)
    posterior.save(tmp_path)
    if callable(output):
        with pytest.raises(rn.CheckpointError, match="by the function second: hand it over, load"):
            rn.load(tmp_path, Text())
    again = rn.load(tmp_path, Text(), output=output)
    assert torch.equal(again.predict(NAMED, 2).mean, posterior.predict(NAMED, 2).mean)


# --- wrappers, masks, dtypes


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(nn.DataParallel, id="DataParallel"),
        pytest.param(torch.compile, id="OptimizedModule", marks=pytest.mark.slow),  # takes seconds to import
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrappers_are_taken_off_and_said(wrap, request):
    name = request.node.callspec.id
    net = nn.Linear(3, 1)
    with pytest.warns(UserWarning, match=f"net is wrapped in {name}: the Linear inside is fitted"):
        model = rn.BayesianModel(wrap(net))
    assert [slot.name for slot in model.bayesian] == ["weight", "bias"]
    posterior = rn.fit(model, (X, X[:, 0]), epochs=1, verbose=False)
    net.load_state_dict(posterior.state_dict())


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)

    def forward(self, x, mask):
        return self.head(self.attention(x, x, x, attn_mask=mask.repeat_interleave(2, 0))[0].mean(1))


def test_masks_of_minus_infinity():
    x, mask = torch.randn(30, 5, 4, generator=G), torch.zeros(30, 5, 5)
    mask[:, :, 3:] = -torch.inf
    posterior = rn.fit(rn.BayesianModel(Attention()), ((x, mask), x[:, 0, 0]), epochs=2, verbose=False)
    before = posterior.predict((x, mask), 3).mean
    hidden = x.clone()
    hidden[:, 3:] += 1e3 * torch.ones(4)  # seen by queries alone
    assert torch.isfinite(before).all()
    for bad in (torch.where(mask == 0, 1.0, mask), -mask, mask / 0):
        with pytest.raises(rn.DataError, match=r"x holds .* at|finite"):
            rn.fit(rn.BayesianModel(Attention()), ((x, bad), x[:, 0, 0]), epochs=1, verbose=False)
        with pytest.raises(rn.DataError, match="finite"):
            posterior.predict((x, bad), 3)


class Half(nn.Module):
    """A frozen body in bfloat16 under a float32 head."""

    def __init__(self, cast=True):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.cast = nn.Linear(3, 4).bfloat16().requires_grad_(False), nn.Linear(4, 1), cast

    def forward(self, x):
        return self.head(self.body(x.bfloat16()).float() if self.cast else self.body(x))


def test_half_precision_bodies(tmp_path):
    posterior = rn.fit(rn.BayesianModel(Half()), (X, X[:, 0]), epochs=2, verbose=False)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, Half())
    assert torch.equal(again.predict(X, 3).mean, posterior.predict(X, 3).mean)
    assert again.state_dict()["body.weight"].dtype == torch.bfloat16
    with pytest.raises(rn.DataError, match=r"net does not take x of shape .*dtype"):
        rn.fit(rn.BayesianModel(Half(cast=False)), (X, X[:, 0]), epochs=1, verbose=False)


def test_mixed_precision_of_what_is_learnt_is_one_line():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1).double())
    message = "net has '1.weight' as torch.float64 and '0.weight' as torch.float32: give net.float"
    with pytest.raises(rn.ParameterError, match=message):
        rn.BayesianModel(net)


# --- gradient checkpointing

LOCAL = r"net computes .* again in the backward pass.*switch gradient checkpointing off, or use SVGI\(est"


class Checkpointed(nn.Module):
    def __init__(self, *, on, reentrant=False):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.drop, self.on, self.reentrant = nn.Dropout(0.2), on, reentrant

    def inner(self, x):
        return torch.tanh(self.drop(self.second(x)))

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = checkpoint(self.inner, x, use_reentrant=self.reentrant) if self.on else self.inner(x)
        return self.third(x)


@pytest.mark.parametrize("method", [SVGI(estimator="weights"), SGLD(thin=1), MAP()], ids=["svgi", "sgld", "map"])
def test_checkpointing_changes_no_bit(method):
    """The backward pass finds the drawn parameters, not those of the network."""
    drawn = [
        rn.fit(rn.BayesianModel(Checkpointed(on=on), Gaussian(1.0)), (X, X[:, 0]), method, epochs=6, verbose=False)
        for on in (True, False)
    ]
    first, second = (posterior.predict(X, 3).mean for posterior in drawn)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("method", "reentrant", "message"),
    [
        (SVGI(estimator="local"), False, LOCAL),
        (SVGI(estimator="weights"), True, "net uses reentrant gradient checkpointing: call .*use_reentrant=False"),
        (HMC(chains=1, max_tree_depth=1), False, "net uses gradient checkpointing, which HMC cannot have"),
        (MCLMC(), False, LOCAL),
    ],
)
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of the trial without gradients
def test_checkpointing_that_cannot_be_is_one_line(method, reentrant, message):
    net = Checkpointed(on=True, reentrant=reentrant)
    with pytest.raises(rn.ParameterError, match=message) as caught:
        rn.fit(rn.BayesianModel(net, Gaussian(1.0)), (X, X[:, 0]), method, epochs=6, verbose=False)
    assert "\n" not in str(caught.value)
