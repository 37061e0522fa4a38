"""Splits by seed: every row once, classes in their proportions."""

import pytest
import torch

from r2d2net.data import stratified_folds, train_validation_test
from r2d2net.errors import ParameterError

LABELS = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)


def test_folds() -> None:
    folds = stratified_folds(LABELS, 5, seed=0)
    assert torch.equal(torch.cat([fold.test for fold in folds]).sort().values, torch.arange(100))
    for fold in folds:
        assert torch.bincount(LABELS[fold.test]).tolist() == [12, 6, 2]
        assert torch.equal(torch.cat(fold).sort().values, torch.arange(100))
    again, other = stratified_folds(LABELS, 5, seed=0), stratified_folds(LABELS, 5, seed=1)
    assert all(torch.equal(a.test, b.test) for a, b in zip(folds, again, strict=True))
    assert not all(torch.equal(a.test, b.test) for a, b in zip(folds, other, strict=True))


def test_three_parts() -> None:
    parts = train_validation_test(LABELS, 0.2, 0.1, seed=0)
    counts = [torch.bincount(LABELS[part], minlength=3).tolist() for part in parts]
    assert counts == [[42, 21, 7], [12, 6, 2], [6, 3, 1]]
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(100))
    plain = train_validation_test(100, 0.2, 0.1, seed=0)
    assert [len(part) for part in plain] == [70, 20, 10]
    assert torch.equal(torch.cat(plain).sort().values, torch.arange(100))
    none = train_validation_test(10, 0.0, 0.0, seed=0)
    assert [len(part) for part in none] == [10, 0, 0]


def test_refused() -> None:
    for call in (
        lambda: stratified_folds(LABELS, 11, seed=0),
        lambda: stratified_folds(LABELS, 1, seed=0),
        lambda: stratified_folds(LABELS.float(), 5, seed=0),
        lambda: stratified_folds(LABELS, 5, seed=-1),
        lambda: train_validation_test(100, 0.6, 0.4, seed=0),
        lambda: train_validation_test(100, -0.1, 0.4, seed=0),
        lambda: train_validation_test(torch.tensor([0, 0, 0, 1]), 0.25, 0.25, seed=0),
    ):
        with pytest.raises(ParameterError) as caught:
            call()
        assert "\n" not in str(caught.value)
