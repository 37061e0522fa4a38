"""Graphs like those of citations, drawn: a stochastic block model with features of which few tell the block.

    y_i uniform,   P(i - j) = p_in if y_i = y_j else p_out,   x_ik ~ Bernoulli(rate of word k in block y_i)

Words that are real have a higher rate in one block than in the others, all other words the same rate everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import require, require_whole
from r2d2net.graphs.graph import Graph


class BlockModel(NamedTuple):
    """A drawn graph with its truth.

    Attributes:
        graph: The graph, with 0 or 1 for each node and word.
        y: Block of each node, (nodes,).
        real: Numbers of the words that tell the block.
        train: Nodes with a label, as many of each block as of any other, (labelled,).
        validation: Further nodes, (validation,).
        test: All others.
    """

    graph: Graph
    y: Tensor
    real: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor


def block_model(
    nodes: int = 800,
    blocks: int = 4,
    words: int = 50,
    real: int = 5,
    *,
    degree: float = 4.0,
    mixing: float = 0.35,
    often: float = 0.5,
    rarely: float = 0.15,
    labelled: int = 80,
    validation: int = 120,
    seed: int = 0,
) -> BlockModel:
    """Draw a graph of blocks whose nodes have words.

    Args:
        nodes: Number of nodes.
        blocks: Number of blocks.
        words: Number of words.
        real: Number of words that tell the block; they belong to the blocks in turn.
        degree: Mean number of neighbours.
        mixing: Share of the edges between blocks.
        often: Rate of a real word in its block.
        rarely: Rate of a word elsewhere.
        labelled: Number of labelled nodes.
        validation: Number of validation nodes.
        seed: Seed of the draw.

    Returns:
        The graph and its truth.

    Raises:
        ParameterError: If a number is out of range.
    """
    for name, value in (("nodes", nodes), ("blocks", blocks), ("words", words), ("labelled", labelled)):
        require_whole(name, value)
    require(blocks > 1, "blocks", blocks, "use 2 or more")
    require(0 <= real <= words, "real", real, f"use a number from 0 to {words}")
    require(labelled + validation < nodes, "labelled", labelled, f"leave test nodes of {nodes}")
    require(0 <= mixing <= 1, "mixing", mixing, "use a share from 0 to 1")
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % blocks
    y = y[torch.randperm(nodes, generator=g)]
    same = y[:, None] == y
    p_in, p_out = degree * (1 - mixing) * blocks / nodes, degree * mixing * blocks / ((blocks - 1) * nodes)
    linked = torch.rand(nodes, nodes, generator=g) < torch.where(same, p_in, p_out)
    upper = linked.triu(1)
    edge_index = (upper | upper.T).nonzero().T.contiguous()
    chosen = torch.randperm(words, generator=g)[:real].sort().values
    rate = torch.full((blocks, words), rarely)
    rate[torch.arange(real) % blocks, chosen] = often
    x = (torch.rand(nodes, words, generator=g) < rate[y]).float()
    order = torch.randperm(nodes, generator=g)
    rank = torch.zeros(nodes, dtype=torch.long)  # of a node among those of its block
    for block in range(blocks):
        own = order[y[order] == block]
        rank[own] = torch.arange(len(own))
    order = order[rank[order].argsort(stable=True)]  # blocks in turn
    train, held, test = order.split([labelled, validation, nodes - labelled - validation])
    return BlockModel(Graph(x, edge_index), y, chosen, train, held, test)
