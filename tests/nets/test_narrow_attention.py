"""Attention of some heads: with all of them it is that of torch."""

from typing import Any

import pytest
import torch
from torch import nn

from r2d2net.nets.narrow_attention import NarrowAttention


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_all_heads_are_the_attention_of_torch(batch_first: bool, bias: bool) -> None:
    torch.manual_seed(0)
    whole = nn.MultiheadAttention(8, 4, bias=bias, batch_first=batch_first)
    narrow = NarrowAttention.like(whole)
    x, other = torch.randn(3, 5, 8), torch.randn(3, 6, 8)
    if not batch_first:
        x, other = x.transpose(0, 1), other.transpose(0, 1)
    padding = torch.tensor([[0, 0, 0, 0, 1, 1], [0] * 6, [1, 0, 0, 0, 0, 0]]) > 0
    masks: list[dict[str, Any]] = [
        {},
        {"key_padding_mask": padding},
        {"attn_mask": torch.randn(5, 6)},
        {"attn_mask": torch.triu(torch.ones(5, 6) > 0, 2), "average_attn_weights": False},
        {"attn_mask": torch.randn(12, 5, 6), "need_weights": False},
    ]
    for options in masks:
        for found, expected in zip(narrow(x, other, other, **options), whole(x, other, other, **options), strict=True):
            assert (found is None) == (expected is None)
            if expected is not None:
                torch.testing.assert_close(found, expected)
    one = x[0] if batch_first else x[:, 0]
    torch.testing.assert_close(narrow(one, one, one), whole(one, one, one))
