"""How far a reader has to go: the files that `fit` and `predict` pass through for a small network under R2D2."""

import sys
from pathlib import Path
from types import FrameType

import torch

import r2d2net as rn

MOST_FILES = 64  # the last to join: calls, parts, roles and start of networks, callbacks, devices, ranks, graphs
PACKAGE = Path(rn.__file__).parent


def test_fit_and_predict_pass_few_files_and_build_once() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 8, generator=generator)
    y = x[:, 0] + 0.1 * torch.randn(200, generator=generator)
    net = torch.nn.Sequential(torch.nn.Linear(8, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
    model = rn.BayesianModel(net, prior=rn.priors.R2D2(), likelihood=rn.likelihoods.Gaussian())
    fit = rn.fit  # imported before the walk begins
    files, builds = set(), []

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            files.add(code.co_filename)
            if code.co_name == "build" and Path(code.co_filename).parent.name == "inference":
                builds.append(code.co_filename)

    sys.setprofile(enter)
    try:
        fit(model, (x, y), "svgi", epochs=3, seed=0).predict(x[:5]).interval(0.9)
    finally:
        sys.setprofile(None)
    assert len(files) <= MOST_FILES, "\n".join(sorted(files))
    assert len(builds) == 1
