"""What a user sees while a fit runs."""

import io
import sys

import pytest
import torch
from rich.console import Console
from torch import nn

import r2d2net as rn
from r2d2net.run import progress as module

X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def screen(monkeypatch):
    """Standard error as a terminal of 200 columns, and what is written to it."""
    text = io.StringIO()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(module, "terminal", lambda: Console(file=text, force_terminal=True, width=200))
    return text


def fit(**options):
    return rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (X, X[:, 0]), epochs=4, jobs=1, **options)


def test_the_bar_shows_what_matters(screen):
    posterior = fit(algorithm=rn.inference.SVGI(warm_up=0.5, temperature=0.8), validation=0.2)
    shown = screen.getvalue()
    assert "4/4" in shown
    assert "0:00:00" in shown  # the time left
    last = posterior.history[-1]
    for name in ("nll", "kl", "temperature", "noise", "validation"):
        assert f"{name} {last[name]:.4g}" in shown
    assert [entry["temperature"] for entry in posterior.history] == [0.4, 0.8, 0.8, 0.8]


def test_several_runs_show_a_line_each(screen):
    posterior = fit(restarts=2)
    first, second = screen.getvalue().splitlines()
    assert first == f"run 1 of 2: prior given, restart 0, validation {posterior.candidates[0]['validation']:.4g}"
    assert second.startswith("run 2 of 2: prior given, restart 1, ")


@pytest.mark.parametrize("restarts", [1, 2])
def test_quiet_when_asked_or_when_there_is_no_terminal(screen, capfd, monkeypatch, restarts):
    fit(restarts=restarts, verbose=False)
    assert screen.getvalue() == ""
    monkeypatch.undo()
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(restarts=restarts)
    assert capfd.readouterr() == ("", "")
