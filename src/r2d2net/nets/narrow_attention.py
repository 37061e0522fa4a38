"""Attention with fewer heads than its width has room for: what is left of one whose other heads were removed.

    out = W_o concat_h softmax(Q_h K_h' / sqrt(d) + mask) V_h + b_o,      Q_h = W_q,h x + b_q,h  and so on

In `torch.nn.MultiheadAttention` all heads together are as wide as the inputs. Here each keeps its width d and their
number is free. Parameters have the names of that class, and the call is the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class NarrowAttention(nn.Module):
    """Attention of some heads.

    Args:
        inputs: Width of queries, keys and values.
        heads: Number of heads.
        head_width: Width d of a head.
        outputs: Width of the output.
        bias: Whether there are biases.
        dropout: Probability with which weights of attention are dropped in training.
        batch_first: Whether the rows come first, as in ``(rows, length, inputs)``.

    Example:
        >>> import torch
        >>> x = torch.randn(2, 5, 8)
        >>> NarrowAttention(8, 1, 4, 8, batch_first=True)(x, x, x)[0].shape
        torch.Size([2, 5, 8])
    """

    _qkv_same_embed_dim = False  # by which torch's encoder layer knows that its fused kernel does not suit
    in_proj_bias: Tensor | None

    def __init__(
        self,
        inputs: int,
        heads: int,
        head_width: int,
        outputs: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.head_width, self.dropout, self.batch_first = head_width, dropout, batch_first
        self.in_proj_weight = nn.Parameter(torch.empty(3 * heads * head_width, inputs))
        nn.init.xavier_uniform_(self.in_proj_weight)
        if bias:
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * heads * head_width))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = nn.Linear(heads * head_width, outputs, bias)

    @classmethod
    def like(cls, whole: nn.MultiheadAttention) -> NarrowAttention:
        """Build the attention of the heads that a module of torch has the parameters of.

        Args:
            whole: The module, some heads of which have been cut out of its parameters.

        Returns:
            Attention with the same parameters.
        """
        width, bias = whole.head_dim, whole.in_proj_bias is not None
        heads = whole.in_proj_weight.shape[0] // (3 * width)
        sizes = whole.in_proj_weight.shape[1], heads, width, whole.out_proj.weight.shape[0]
        new = cls(*sizes, bias=bias, dropout=whole.dropout, batch_first=whole.batch_first)
        new.in_proj_weight, new.in_proj_bias, new.out_proj = whole.in_proj_weight, whole.in_proj_bias, whole.out_proj
        return new.train(whole.training)

    @property
    def num_heads(self) -> int:
        """Number of heads."""
        return self.in_proj_weight.shape[0] // (3 * self.head_width)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention as `torch.nn.MultiheadAttention` does; the arguments are the same.

        Returns:
            The output, and the weights of attention where they are needed.
        """
        alone = query.dim() == 2
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        matrices = self.in_proj_weight.chunk(3)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        # (rows, length, inputs) -> (rows, heads, length, head width)
        q, k, v = (
            functional.linear(x, w, b).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for x, w, b in zip((query, key, value), matrices, biases, strict=True)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_width)
        if attn_mask is not None:
            own = attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (len(q), -1))
            scores = scores + _additive(own, scores)
        if key_padding_mask is not None:
            scores = scores + _additive(key_padding_mask, scores)[:, None, None]
        weights = functional.dropout(scores.softmax(-1), self.dropout, self.training)
        out = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if not alone and not self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return (out[0] if alone else out), None
        weights = weights.mean(1) if average_attn_weights else weights
        return (out[0], weights[0]) if alone else (out, weights)

    def extra_repr(self) -> str:
        return f"inputs={self.in_proj_weight.shape[1]}, heads={self.num_heads}, head_width={self.head_width}"


def _additive(mask: Tensor, scores: Tensor) -> Tensor:
    """Return a mask as numbers to be added to scores; of a boolean one True is what is left out."""
    if mask.dtype != torch.bool:
        return mask.to(scores.dtype)
    return torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device).masked_fill_(mask, -math.inf)
