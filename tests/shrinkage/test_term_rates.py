"""Selection by terms: features, effects of all kinds, errors held under correlation, the default's choice, refusals."""

import numpy as np
import pytest
import torch

import r2d2net as rn
from r2d2net.shrinkage import selection
from r2d2net.shrinkage.selection_models import models_for
from r2d2net.shrinkage.term_search import COLUMN, CURVE, PRODUCT, features


def table(rows: int, columns: int, correlation: float, seed: int) -> torch.Tensor:
    """Columns that share one factor."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    factor = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return correlation**0.5 * factor + (1 - correlation) ** 0.5 * own


def noise(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, generator=torch.Generator().manual_seed(seed + 1000), dtype=torch.float64)


def test_terms_are_columns_scores_parabolas_and_products():
    rng = np.random.default_rng(0)
    x = np.stack([rng.standard_normal(80), rng.exponential(size=80), rng.integers(2, size=80), np.ones(80)], 1)
    found = features(x, rng.standard_normal(80), [[0], [1], [2, 3]])
    terms = found.terms
    assert np.bincount(terms.kind).tolist() == [4, 3, 5]  # the score of the skewed column, two parabolas, products
    assert terms.searched.tolist() == [4, 3, 5]  # no product of the columns of one input
    assert np.allclose(terms.z.mean(0), 0)
    assert set(terms.z.std(0).round(6)) == {0.0, 1.0}
    first, second = found.owners.T
    assert (first[terms.kind != PRODUCT] == second[terms.kind != PRODUCT]).all()
    assert (first[terms.kind == PRODUCT] != second[terms.kind == PRODUCT]).all()
    assert first[terms.kind == COLUMN].tolist() == [0, 1, 2, 2]
    assert first[terms.kind == CURVE].tolist() == [1, 0, 1]


def test_effects_of_all_kinds_are_found_among_more_inputs_than_rows():
    x = table(150, 200, 0.3, 0)
    y = 1.5 * x[:, 3] + x[:, 40] ** 2 + 1.5 * x[:, 90] * x[:, 150] + 0.5 * noise(150, 0)
    found = rn.shrinkage.select(None, x, y)
    assert found.method == "terms"
    assert found.indices == [3, 40, 90, 150]
    assert torch.equal(found.q_value, rn.shrinkage.select(None, x, y).q_value)


def test_errors_are_few():
    """A mean of four above 0.45 is three standard errors (0.08) above the bound."""
    shares = []
    for seed in range(4):
        x = table(80, 30, 0.6, seed)
        y = x[:, 0] - x[:, 1] + x[:, 2] * x[:, 3] + 0.5 * noise(80, seed)
        chosen = set(rn.shrinkage.select(None, x, y, fdr=0.2).indices)
        shares.append(len(chosen - {0, 1, 2, 3}) / max(1, len(chosen)))
    assert np.mean(shares) < 0.45


def test_skewed_targets_heavy_tails_and_noise():
    x = table(100, 10, 0.3, 1)
    assert rn.shrinkage.select(None, x, noise(100, 1)).indices == []
    assert rn.shrinkage.select(None, x, noise(100, 2) / noise(100, 3)).indices == []  # Cauchy
    assert rn.shrinkage.select(None, x, (3 * x[:, 7] + noise(100, 4)).exp()).indices == [7]


def test_the_default_takes_terms_for_numbers_alone(monkeypatch):
    asked = []
    monkeypatch.setattr(
        selection, "term_rates", lambda x, y, inputs, seed: asked.append(0) or torch.ones(len(inputs)).double()
    )
    monkeypatch.setattr(selection, "left_out_networks", lambda *_, **__: asked.append(1) or [])
    monkeypatch.setattr(selection, "randomization_p_values", lambda *_, **__: torch.ones(3).double())
    x = table(40, 3, 0.0, 5)
    y, labels = x[:, 0], (x[:, 0] > 0).long()
    numbers, classes = models_for(rn.likelihoods.Gaussian()), models_for(rn.likelihoods.Categorical(), 2)
    for target, arguments in [
        (y, {}),
        (y[:, None], {}),
        (y, {"refit": numbers}),
        (labels, {"refit": classes}),
        (y, {"refit": lambda x, y: None}),
        (torch.stack([y, y], 1), {"refit": numbers}),
        (y, {"folds": "left out"}),
        (y, {"method": "randomization", "refit": numbers}),
    ]:
        rn.shrinkage.select(None, x, target, **arguments)
    assert asked == [0, 0, 0, 1, 1, 1, 1, 1]


def test_few_values_are_refused():
    x = table(40, 3, 0.0, 6)
    with pytest.raises(rn.DataError) as error:
        rn.shrinkage.select(None, x, (x[:, 0] > 0).double(), method="terms")
    line = "y has 2 different values: give one column of ten or more, or use method='randomization'"
    assert str(error.value) == line
