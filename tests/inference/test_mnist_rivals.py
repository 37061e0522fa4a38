"""LeNet on MNIST by the methods that are neither samplers nor Dirichlet networks: three epochs of default settings."""

import os

import pytest
import torch

import r2d2net as rn
from r2d2net import metrics
from r2d2net.data import Preprocess, load

LEAST, DRAWS = 0.955, 20


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory):
    root = os.environ.get("R2D2NET_DATA")
    if not root:
        pytest.skip("R2D2NET_DATA is not set: no real data here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("R2D2NET_CACHE", str(tmp_path_factory.mktemp("cache")))
        train, test = load("mnist", root), load("mnist", root, "test")
    prepare = Preprocess.fitted(train.images)
    return (prepare(train.images), train.labels), (prepare(test.images), test.labels)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["MAP", "MCDropout", "DeepEnsemble", "SVI", "MFVI", "Radial"])
def test_lenet_learns_digits_in_three_epochs(method: str, digits, capsys: pytest.CaptureFixture[str]) -> None:
    """Accuracies were .990, .984, .992, .988, .980 and .974, in this order."""
    (x, y), (x_test, y_test) = digits
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = rn.nets.LeNet(channels=1, classes=10, size=28)
    model = rn.BayesianModel(net, rn.priors.Gaussian(), rn.likelihoods.Categorical())
    settings = {"members": 2} if method == "DeepEnsemble" else {}
    algorithm = getattr(rn.inference, method)(**settings)
    posterior = rn.fit(model, (x, y), algorithm, epochs=3, batch_size=128, seed=0, standardize=False, verbose=False)
    predicted = posterior.predict(x_test, draws=DRAWS)
    accuracy = metrics.accuracy(y_test, predicted.probs)
    with capsys.disabled():
        print(f"\n{method}: accuracy {accuracy:.4f}, NLL {metrics.nll(y_test, predicted):.4f}")
    assert accuracy >= LEAST
