"""A small vision transformer (after Dosovitskiy et al., 2021), whose tokens are patches of the image.

    image -> linear map of each patch, plus a learnt position -> blocks -> norm -> mean over patches -> linear
    block:   x = x + attention(norm(x));  x = x + mlp(norm(x))

The mean over patches replaces a class token. The attention is written with plain linear layers, which local
reparametrisation supports. The positions are a parameter like any other and have the weights' prior;
``BayesianModel(net, deterministic=["position"])`` makes them deterministic.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from r2d2net.errors import Argument, require, require_whole
from r2d2net.nets.image_sizes import require_image


class Block(nn.Module):
    """Attention and a two-layer perceptron, each on normalised input and added to it."""

    has_attention = True  # by which step sizes are chosen

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        # (rows, patches, width); in the heads (3, rows, heads, patches, width / heads)
        parts = self.query_key_value(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.merge(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class ViT(nn.Module):
    """A small vision transformer.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        patch: Pixels of a patch's side; it must divide the size.
        width: Features of a patch.
        depth: Number of blocks.
        heads: Attention heads; the number must divide the width.
    """

    def __init__(
        self,
        channels: int = 3,
        classes: int = 10,
        size: int = 32,
        *,
        patch: int = 4,
        width: int = 96,
        depth: int = 4,
        heads: int = 4,
    ) -> None:
        super().__init__()
        for name, value in (("patch", patch), ("width", width), ("depth", depth), ("heads", heads)):
            require_whole(name, value)
        require_image(channels, classes, size, least=patch, name=f"ViT with patch={patch}")
        require(size % patch == 0, "size", size, ("use a multiple of ", Argument("patch", patch), ", or another patch"))
        require(width % heads == 0, "width", width, ("use a multiple of ", Argument("heads", heads)))
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)  # a linear map of each patch
        self.position = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, 2 * width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, patches, width) -> (rows, classes)
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.blocks(tokens)).mean(1))
