"""Shares rank as importances do and add up to at most 1; the cut agrees with them; substitutes form groups."""

import pytest
import torch

from r2d2net.shrinkage.importance_shares import importance_shares, kept_by_share
from r2d2net.shrinkage.input_groups import input_groups, similarities
from r2d2net.shrinkage.relevance import Relevance


@pytest.mark.parametrize("scale", [0.01, 0.3, 4.7])
def test_shares_are_between_0_and_1_and_keep_the_ranking(scale: float) -> None:
    g = torch.Generator().manual_seed(0)
    importance = scale * torch.randn(30, generator=g)
    share = importance_shares(importance)
    assert 0 <= float(share.min()) <= float(share.max()) <= 1
    assert float(share.sum()) <= 1 + 1e-6
    positive = importance.clamp(min=0)
    assert share.argsort(stable=True).tolist() == positive.argsort(stable=True).tolist()
    if positive.sum() < 1:
        assert torch.equal(share, positive)  # nothing to divide by: little is explained, and the shares say so


def test_what_is_kept_never_contradicts_the_shares() -> None:
    g = torch.Generator().manual_seed(1)
    for _ in range(200):
        share = torch.rand(12, generator=g)
        needed = torch.rand(12, generator=g) < share
        kept = kept_by_share(share, needed)
        if kept.any() and not kept.all():
            assert float(share[kept].min()) >= float(share[~kept].max())
        wrong = int((kept != needed).sum())
        for cut in range(13):  # no other cut has fewer contradictions
            other = torch.zeros(12, dtype=torch.bool)
            other[share.argsort(descending=True)[:cut]] = True
            assert wrong <= int((other != needed).sum())
    # a substitute between two inputs that are needed is kept, a needed one far below those that are not is dropped
    share = torch.tensor([0.4, 0.3, 0.2, 0.05, 0.04, 0.01])
    assert kept_by_share(share, torch.tensor([1, 0, 1, 0, 0, 1]).bool()).tolist() == 3 * [True] + 3 * [False]
    assert not kept_by_share(share, torch.zeros(6, dtype=torch.bool)).any()


def test_substitutes_form_a_group_and_a_category_takes_part_with_all_its_columns() -> None:
    g = torch.Generator().manual_seed(2)
    x = torch.randn(500, 4, generator=g)
    x[:, 1] = -x[:, 0] + 0.3 * x[:, 1]  # correlation -0.96
    x[:, 2] = x[:, 0] + 1.5 * x[:, 2]  # 0.55
    level, codes = torch.randint(3, (500,), generator=g), torch.tensor([101, 100, 102])
    x = torch.cat([x, torch.nn.functional.one_hot(level, 3), (level == 0)[:, None], codes[level][:, None]], dim=1)
    inputs = [[0], [1], [2], [3], [4, 5, 6], [7], [8]]
    alike = similarities(x.double(), inputs)
    assert float(alike[0, 1]) == pytest.approx(abs(float(torch.corrcoef(x[:, :2].T)[0, 1])), abs=1e-6)
    assert float(alike[4, 5]) < 0.8  # one level is a part of the category
    share = torch.full((7,), 0.1)
    groups = input_groups(x, inputs, share)
    assert groups.tolist() == [0, 0, -1, -1, -1, -1, -1]
    share[1] = 0.001  # without importance there is nothing to stand for
    assert input_groups(x, inputs, share).tolist() == 7 * [-1]
    assert input_groups(torch.ones(10, 2), [[0], [1]], torch.tensor([0.5, 0.5])).tolist() == [-1, -1]


def test_a_chain_of_neighbours_is_no_group_of_its_ends() -> None:
    """a ~ b and b ~ c with 0.85, but a and c with 0.7: complete linkage never joins all three."""
    root = torch.linalg.cholesky(torch.tensor([[1.0, 0.85, 0.7], [0.85, 1.0, 0.85], [0.7, 0.85, 1.0]]))
    x = torch.randn(5000, 3, generator=torch.Generator().manual_seed(3)) @ root.T
    groups = input_groups(x, [[0], [1], [2]], torch.full((3,), 0.3))
    assert sorted(groups.tolist()) == [-1, 0, 0]


def test_files_of_earlier_versions_have_shares_all_the_same() -> None:
    old = {name: torch.tensor([0.5, 1.5]) for name in Relevance._fields if name not in ("share", "group")}
    restored = Relevance.restored(old)
    assert restored.share.tolist() == [0.25, 0.75]
    assert restored.group.tolist() == [-1, -1]
    assert not restored._replace(kept=torch.tensor([True, False])).without_kept().kept.any()
