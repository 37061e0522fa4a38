"""Classes at positions and several labels in a row."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import r2d2net as rn
from r2d2net.errors import FitWarning
from r2d2net.inference import MAP, SGLD, SVGI
from r2d2net.likelihoods import BernoulliLabels, CategoricalPositions
from r2d2net.position_predictions import LabelProbabilities, PositionClasses
from r2d2net.priors import R2D2, Gaussian

G = torch.Generator().manual_seed(0)


def test_log_prob_is_that_of_each_position_by_itself():
    logits = torch.randn(4, 3, 2, 5, generator=G, dtype=torch.float64)
    y = torch.randint(0, 3, (4, 2, 5), generator=G)
    y[0, 0, 0] = y[1] = -100
    images, texts = CategoricalPositions(), CategoricalPositions(dim=-1)
    found = images.log_prob(logits, y, {})
    logs = torch.log_softmax(logits, 1)
    for row in range(4):
        known = [(i, j) for i in range(2) for j in range(5) if y[row, i, j] >= 0]
        assert found[row] == pytest.approx(sum(float(logs[row, y[row, i, j], i, j]) for i, j in known), abs=1e-12)
    assert found[1] == 0
    assert torch.equal(texts.log_prob(logits.movedim(1, -1), y, {}), found)
    assert torch.allclose(images.predict(logits[None], {}, None).log_prob(y), found)
    assert torch.allclose(texts.predict(logits.movedim(1, -1)[None], {}, None).log_prob(y), found)


def test_labels_are_independent_and_unknown_ones_left_out():
    logits = torch.randn(6, 3, generator=G, dtype=torch.float64)
    y = torch.randint(0, 2, (6, 3), generator=G)
    y[0, 1] = y[2] = -100
    found = BernoulliLabels().log_prob(logits, y, {})
    each = -functional.binary_cross_entropy_with_logits(logits, y.clamp(min=0).double(), reduction="none")
    assert torch.allclose(found, (each * (y >= 0)).sum(1))
    assert found[2] == 0
    assert torch.allclose(BernoulliLabels().predict(logits[None], {}, None).log_prob(y), found)


X = torch.randn(40, 2, 4, 4, generator=G)
PIXELS = (X[:, 0] > 0).long()
TOKENS = torch.randint(0, 5, (40, 6), generator=G)


def unet():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))


def tagger():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5))


@pytest.mark.parametrize(
    ("method", "prior"),
    [(SVGI(), R2D2()), (SGLD(), Gaussian(1.0)), (MAP(), Gaussian(1.0))],
    ids=["svgi", "sgld", "map"],
)
@pytest.mark.parametrize("kind", ["pixels", "tokens", "labels", "rows"])
def test_they_are_learnt_saved_and_predicted(kind, method, prior, tmp_path):
    y_of_tokens = TOKENS.clone()
    y_of_tokens[:, 4:] = -100
    labels = (X.mean((2, 3)) > 0).long()
    labels[::3, 0] = -100
    rows = labels[:, 1].clone()
    rows[::2] = -100  # half of the rows have no class
    flat = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))
    net, likelihood, x, y = {
        "pixels": (unet, CategoricalPositions(), X, PIXELS),
        "tokens": (tagger, CategoricalPositions(dim=-1), TOKENS, y_of_tokens),
        "labels": (lambda: flat, BernoulliLabels(), X, labels),
        "rows": (lambda: flat, CategoricalPositions(), X, rows),
    }[kind]
    epochs = 150 if method == SVGI() else 30
    posterior = rn.fit(rn.BayesianModel(net(), prior, likelihood), (x, y), method, epochs=epochs, verbose=False)
    predicted = posterior.predict(x, 5)
    assert isinstance(predicted, LabelProbabilities if kind == "labels" else PositionClasses)
    known = y != -100
    right = (predicted.label == y)[known].double().mean()
    assert right > 0.75  # half of them by chance; the seeds are pinned
    assert predicted.entropy.shape == y.shape if kind != "labels" else predicted.std.shape == y.shape
    assert len(predicted.to_pandas()) == 40
    assert predicted._repr_html_()
    posterior.save(tmp_path)
    again = rn.load(tmp_path, net()).predict(x, 5)
    assert torch.equal(again.samples, predicted.samples)
    assert torch.equal(posterior.predict(x, 5, rows=7).samples, predicted.samples) or kind != "rows"


def test_validation_rows_and_streams():
    data = torch.utils.data.TensorDataset(X, PIXELS)
    model = rn.BayesianModel(unet(), likelihood=CategoricalPositions())
    posterior = rn.fit(model, data, epochs=3, validation=(X[:9], PIXELS[:9]), patience=2, verbose=False)
    assert posterior.history[-1]["validation"] > 0
    assert posterior.health["verdict"] == "not checked"
    assert posterior.predict(torch.randn(3, 2, 6, 5)).label.shape == (3, 6, 5)  # images of another size


def test_a_batch_may_be_without_classes():
    y = PIXELS.clone()
    y[10:20] = -100
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=10)
    posterior = rn.fit(rn.BayesianModel(unet(), likelihood=CategoricalPositions()), loader, epochs=2, verbose=False)
    assert torch.isfinite(posterior.predict(X, 2).samples).all()
    assert bool((posterior.predict(X, 2).log_prob(y)[10:20] == 0).all())


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (CategoricalPositions(), PIXELS - 1, "y holds -1: classes are 0, 1, ..., and -100 where there is none"),
        (CategoricalPositions(), PIXELS + 0.5, "y holds .*5: classes are"),
        (CategoricalPositions(), PIXELS * 0 - 100, "y holds -100 alone"),
        (CategoricalPositions(), PIXELS + 1, "y holds class 2 and 16 positions in a row, net gives 32 numbers"),
        (CategoricalPositions(dim=-1), PIXELS, r"output has shape .*give likelihood=rn.likelihoods.Cat.*dim=1\)"),
        (CategoricalPositions(), PIXELS[:, :2, :2], "output has shape .*: they must agree"),
        (BernoulliLabels(), PIXELS[:, 0, 0], "y has shape .* for one use Bernoulli"),
        (BernoulliLabels(), PIXELS[:, 0] + 1, "y holds 2: labels are 0 and 1"),
        (BernoulliLabels(), PIXELS[:, 0], "net gives 32 outputs, the likelihood BernoulliLabels needs 4"),
    ],
)
def test_targets_that_do_not_fit_are_one_line(likelihood, y, message):
    with pytest.raises(rn.R2D2NetError, match=message) as caught:
        rn.fit(rn.BayesianModel(unet(), likelihood=likelihood), (X, y), epochs=1, verbose=False)
    assert "\n" not in str(caught.value)


def test_where_both_readings_fit_the_default_warns_and_what_is_stated_decides():
    """Six tokens of six classes: the classes may be after the rows or last."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 6))
    data = TOKENS, TOKENS  # the class of a token is the token

    def fit(likelihood, epochs=1):
        return rn.fit(rn.BayesianModel(net, likelihood=likelihood), data, epochs=epochs, verbose=False)

    line = r"^the output \(2, 6, 6\) may have classes after the rows, or last: give CategoricalPositions\(dim=1\), .*"
    with pytest.warns(FitWarning, match=line) as said:
        fit(CategoricalPositions())
    assert len([each for each in said if "may have classes" in str(each.message)]) == 1
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the output")
        fit(CategoricalPositions(dim=1))
        right = fit(CategoricalPositions(dim=-1), epochs=60).predict(TOKENS, 10).label == TOKENS
        rn.fit(rn.BayesianModel(unet(), likelihood=CategoricalPositions()), (X, PIXELS), epochs=1, verbose=False)
    assert right.double().mean() > 0.9  # by chance a fifth
    opt = rn.optim.SVGI(net, n=40, likelihood=CategoricalPositions())
    with pytest.warns(FitWarning, match="may have classes"), opt.sampled_params():
        opt.nll(net(TOKENS), TOKENS).backward()


@pytest.mark.parametrize("arguments", [{"dim": 0}, {"ignore_index": 0}, {"ignore_index": -1.5}])
def test_settings_out_of_range(arguments):
    with pytest.raises(rn.ParameterError):
        CategoricalPositions(**arguments)
