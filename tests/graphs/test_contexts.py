"""Graphs as contexts: rows are nodes or graphs, outputs those of the plain network, errors one line."""

from types import SimpleNamespace

import pytest
import torch

import r2d2net as rn
from r2d2net.graphs import Graph, GraphSet, block_model, labelled_nodes

PATH = [[0, 1, 1, 2], [1, 0, 2, 1]]  # 0 - 1 - 2


def graph(seed=0, nodes=3, features=2, **others):
    x = torch.randn(nodes, features, generator=torch.Generator().manual_seed(seed))
    return Graph(x, PATH, **others)


def test_a_convolution_is_the_matrix_product_of_its_equation():
    net, drawn = rn.nets.GCN(2, [4], 3), block_model(60, words=2, real=1, labelled=8, validation=8).graph
    with torch.no_grad():
        for layer in net.layers:
            layer.bias.normal_()
        a = torch.eye(60)
        a[drawn.edge_index[1], drawn.edge_index[0]] = 1
        root = torch.diag(a.sum(1).rsqrt())
        s = root @ a @ root
        first, second = net.layers
        hidden = torch.relu(s @ drawn.x @ first.linear.weight.T + first.bias)
        expected = s @ hidden @ second.linear.weight.T + second.bias
        torch.testing.assert_close(net(*drawn.tensors()), expected, rtol=1e-5, atol=1e-5)


def test_outputs_of_nodes_and_of_graphs_are_those_of_the_network():
    torch.manual_seed(0)
    net = rn.nets.GCN(2, [4], 3)
    one, other = graph(0), Graph(torch.randn(4, 2), [[0, 3], [3, 0]])
    both = GraphSet([one, other, graph(2)])
    with torch.no_grad():
        every = net(*one.tensors())
        assert torch.equal(one.outputs(net, torch.tensor([2, 0])), every[[2, 0]])
        alone = [net(*each.tensors()).mean(0) for each in (graph(2), one, other)]
        joined = both.outputs(net, torch.tensor([2, 0, 1]))
    torch.testing.assert_close(joined, torch.stack(alone))


def test_attributes_of_edges_come_third():
    weights = [graph(seed, edge_attr=torch.arange(4.0) + seed) for seed in (0, 1)]
    seen = []
    weights[0].outputs(lambda *given: seen.append(given) or given[0], torch.tensor([0]))
    GraphSet(weights).outputs(lambda *given: seen.append(given) or given[0][:1], torch.tensor([1]))
    assert torch.equal(seen[0][2], torch.arange(4.0))
    assert torch.equal(seen[1][2], torch.arange(4.0) + 1)
    assert torch.equal(seen[1][3], torch.zeros(3, dtype=torch.long))


def test_a_mask_numbers_and_nothing_name_rows():
    one = graph()
    assert one.rows().tolist() == [0, 1, 2]
    assert one.rows(torch.tensor([True, False, True])).tolist() == [0, 2]
    assert one.rows([2, 2]).tolist() == [2, 2]


def test_features_are_standardised_over_the_nodes():
    given = Graph([[1.0, 5.0], [3.0, 5.0]], [[0], [1]])
    scaled = given.standardized()
    assert scaled.x.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert given.x.tolist() == [[1.0, 5.0], [3.0, 5.0]]
    assert GraphSet([given, given]).standardized().x.tolist() == [[-1.0, 0.0], [1.0, 0.0]] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph(torch.zeros(3), PATH), r"^x has shape \(3,\): give \(nodes, features\)$"),
        (lambda: Graph(torch.full((3, 1), torch.nan), PATH), "^x holds values that are not finite"),
        (lambda: Graph("no", PATH), "^x is a .*: give a tensor of numbers$"),
        (lambda: Graph(torch.zeros(3, 1), torch.zeros(2, 2)), "^edge_index has dtype torch.float32: give whole"),
        (lambda: Graph(torch.zeros(3, 1), [[0, 1]]), r"^edge_index has shape \(1, 2\): give \(2, edges\)"),
        (lambda: Graph(torch.zeros(3, 1), [[0], [3]]), "^edge_index names node 3: use numbers from 0 to 2$"),
        (lambda: graph(edge_attr=torch.zeros(3)), r"^edge_attr has shape \(3,\): give one entry for each of 4 edges$"),
        (lambda: GraphSet([]), "^graphs has 0 graphs"),
        (lambda: GraphSet([graph(), graph(features=3)]), "^graphs has graphs of 2 and of 3 features"),
        (lambda: GraphSet([graph(), graph(edge_attr=torch.zeros(4))]), "^graphs differ in edge_attr"),
        (lambda: graph().rows([3]), "^x names row 3: use numbers from 0 to 2$"),
        (lambda: graph().rows([-1]), "^x names row -1"),
        (lambda: graph().rows([0.5]), "^x names rows by torch.float32"),
        (lambda: graph().rows("all"), "^x names rows by"),
        (lambda: graph().rows(torch.ones(2, dtype=torch.bool)), r"^x has a mask of shape \(2,\)"),
        (lambda: Graph.of(SimpleNamespace(edge_index=PATH)), "^data of type .* has no x: give a graph with features"),
        (lambda: labelled_nodes(SimpleNamespace(x=torch.eye(3), edge_index=PATH)), "^data of type .* has no y"),
        (lambda: block_model(blocks=1), "^blocks=1"),
        (lambda: block_model(nodes=100), "^labelled=80"),
    ],
)
def test_what_is_no_graph_is_one_line(make, message):
    with pytest.raises(rn.R2D2NetError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_drawn_graphs_are_as_they_were_asked_for():
    """Rates by 5 standard errors: false alarm below 1e-5."""
    drawn = block_model(1000, degree=6.0, mixing=0.25, seed=3)
    source, target = drawn.graph.edge_index
    across = (drawn.y[source] != drawn.y[target]).float().mean()
    assert abs(drawn.graph.edges / 1000 - 6) < 5 * (12 / 1000) ** 0.5
    assert abs(across - 0.25) < 5 * (0.19 / 3000) ** 0.5
    assert drawn.y[drawn.train].bincount().tolist() == [20] * 4
    everywhere = torch.cat([drawn.train, drawn.validation, drawn.test])
    assert everywhere.sort().values.tolist() == list(range(1000))
    for place, word in enumerate(drawn.real.tolist()):
        own = drawn.y == place % 4
        assert drawn.graph.x[own, word].mean() > 0.35 > 0.25 > drawn.graph.x[~own, word].mean()
