"""Networks of graphs fit, predict, save, load and say which features count, like those of tables."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

import r2d2net as rn
from r2d2net.graphs import Graph, GraphSet, block_model
from r2d2net.run.graph_rows import _first

DRAWN = block_model(120, words=6, real=4, labelled=32, validation=20, often=0.8, rarely=0.1, mixing=0.1)
NODES = ((DRAWN.graph, DRAWN.train), DRAWN.y[DRAWN.train])


def model(outputs=4, likelihood=None, prior=None):
    torch.manual_seed(0)
    return rn.BayesianModel(rn.nets.GCN(6, [8], outputs), prior, likelihood or rn.likelihoods.Categorical())


def fit(data=NODES, algorithm=None, epochs=3, **arguments):
    return rn.fit(model(), data, algorithm, epochs=epochs, verbose=False, **arguments)


@pytest.mark.parametrize("algorithm", ["svgi", "cavi", "sgld", "mcdropout", "mclmc"])
def test_algorithms_fit_nodes_and_predict_any_of_them(algorithm):
    made = model(prior=rn.priors.Gaussian())
    posterior = rn.fit(made, NODES, algorithm, epochs=8, jobs=1, verbose=False)
    everywhere = posterior.predict(DRAWN.graph, draws=3).probs
    assert everywhere.shape == (120, 4)
    some = posterior.predict((DRAWN.graph, [5, 3]), draws=3).probs
    torch.testing.assert_close(some, everywhere[[5, 3]])


def test_features_are_in_the_units_of_the_user():
    """Up to the rounding of float32."""
    other = ((Graph(1000 * DRAWN.graph.x + 7, DRAWN.graph.edge_index), DRAWN.train), NODES[1])
    for algorithm in ("svgi", "map"):
        made = [
            rn.fit(model(prior=rn.priors.Gaussian()), data, algorithm, epochs=3, verbose=False)
            for data in (NODES, other)
        ]
        torch.testing.assert_close(
            made[1].predict(other[0][0]).probs, made[0].predict(DRAWN.graph).probs, rtol=1e-3, atol=1e-3
        )
    plain = rn.fit(model(), NODES, epochs=2, standardize=False, verbose=False)
    assert plain.model.context.x is DRAWN.graph.x
    with pytest.raises(rn.DataError, match=r"^x has 7 features of each node: the model was fitted to 6 features$"):
        made[0].predict(Graph(torch.eye(7), [[0], [1]]))


def test_a_mask_and_targets_of_all_nodes_are_the_same_data():
    mask = torch.zeros(120, dtype=torch.bool).index_fill(0, DRAWN.train, True)
    rows = mask.nonzero().squeeze(1)
    means = [
        fit(data).mean()
        for data in (
            ((DRAWN.graph, rows), DRAWN.y[rows]),
            ((DRAWN.graph, mask), DRAWN.y[rows]),
            ((DRAWN.graph, mask), DRAWN.y),
            SimpleNamespace(x=DRAWN.graph.x, edge_index=DRAWN.graph.edge_index, y=DRAWN.y, train_mask=mask),
        )
    ]
    assert all(torch.equal(mean, means[0]) for mean in means)


def test_validation_nodes_are_of_the_same_graph():
    held = ((DRAWN.graph, DRAWN.validation), DRAWN.y[DRAWN.validation])
    assert "validation" in fit(validation=held).history[-1]
    assert "validation" in fit(validation=0.25).history[-1]
    other = ((block_model(120, words=6, seed=1, labelled=8, validation=8).graph, [0]), torch.tensor([1]))
    with pytest.raises(rn.ParameterError, match=r"^validation=.* has another graph: give rows of the graph in data$"):
        fit(validation=other)


def test_a_saved_posterior_predicts_on_any_graph(tmp_path):
    posterior = fit()
    path = posterior.save(tmp_path)
    assert path.stat().st_size < 20_000
    again = rn.load(tmp_path, rn.nets.GCN(6, [8], 4))
    assert torch.equal(again.predict(DRAWN.graph).samples, posterior.predict(DRAWN.graph).samples)
    smaller = Graph(DRAWN.graph.x[:10], [[0, 1], [1, 0]])
    assert again.predict((smaller, [9])).probs.shape == (1, 4)
    with pytest.raises(rn.DataError, match=r"^net does not take x"):
        again.predict(torch.arange(3))
    with pytest.raises(rn.CheckpointError, match="context"):
        rn.fit(model(), ((smaller, range(8)), DRAWN.y[:8]), epochs=3, resume=tmp_path, verbose=False)


def test_relevance_is_of_the_features_of_nodes():
    posterior = fit(epochs=300)
    relevance = rn.shrinkage.input_relevance(posterior, DRAWN.graph, draws=5, shuffles=2)
    assert relevance.share.shape == (6,)
    assert set(relevance.share.argsort(descending=True)[:4].tolist()) == set(DRAWN.real.tolist())


def test_an_epoch_is_one_pass_over_the_graph():
    many = ((DRAWN.graph, None), DRAWN.y)
    assert fit(((Graph(torch.eye(300, 6), [[0], [1]]), None), torch.arange(300) % 4)).settings["batches"] == 1
    assert fit(many, batch_size=50).settings["batches"] == 2


def small_graphs(count=24):
    g = torch.Generator().manual_seed(0)
    sizes = torch.randint(2, 6, (count,), generator=g).tolist()
    y = torch.arange(count) % 4
    return [Graph(torch.randn(size, 6, generator=g) + y[i], [[0, 1], [1, 0]]) for i, size in enumerate(sizes)], y


class Graphs(Dataset):
    """A data set of torch_geometric, but for its class."""

    def __init__(self):
        graphs, y = small_graphs()
        self.items = [
            SimpleNamespace(x=g.x, edge_index=g.edge_index, y=c[None]) for g, c in zip(graphs, y, strict=True)
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Drawing(Dataset):
    """Rows that are drawn as they are asked for."""

    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.randn(4), torch.tensor(0)


def test_a_look_for_graphs_asks_nothing_of_other_data():
    before = torch.get_rng_state()
    assert _first(Drawing())[0].shape == (4,)
    assert torch.equal(torch.get_rng_state(), before)
    batches = BatchSampler(SequentialSampler(range(16)), 8, drop_last=False)
    assert _first(DataLoader(Drawing(), sampler=batches, batch_size=None)) is None  # asked for by lists alone


def test_rows_may_be_graphs():
    graphs, y = small_graphs()
    whole = GraphSet(graphs)
    given = fit((whole, y), batch_size=8, epochs=2)
    assert given.settings["batches"] == 3
    assert given.predict(whole).probs.shape == (24, 4)
    torch.testing.assert_close(given.predict((whole, [7])).probs, given.predict(whole).probs[[7]])
    data = Graphs()
    for same in (data, data.items, DataLoader(data, batch_size=8, collate_fn=list)):
        size = None if isinstance(same, DataLoader) else 8
        assert torch.equal(fit(same, batch_size=size, epochs=2).mean(), given.mean())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (((DRAWN.graph, [0, 1]), torch.zeros(3, dtype=torch.long)), "^data names 2 rows of Graph.* and has 3 targets"),
        (((DRAWN.graph, [500]), torch.zeros(1, dtype=torch.long)), "^x names row 500: use numbers from 0 to 119$"),
        ([SimpleNamespace(x=torch.eye(2, 6), edge_index=[[0], [1]])] * 3, "^data has graphs without y"),
    ],
)
def test_data_that_do_not_fit_are_one_line(data, message):
    with pytest.raises(rn.R2D2NetError, match=message) as caught:
        fit(data)
    assert "\n" not in str(caught.value)


def test_graphs_of_torch_geometric():
    geometric = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    nn, loader = pytest.importorskip("torch_geometric.nn"), pytest.importorskip("torch_geometric.loader")
    data = geometric.datasets.KarateClub()
    posterior = rn.fit(
        rn.BayesianModel(nn.GCN(34, 8, 2, out_channels=4), likelihood=rn.likelihoods.Categorical()),
        data,
        epochs=2,
        verbose=False,
    )
    assert posterior.settings["n"] == int(data[0].train_mask.sum())
    assert posterior.predict(Graph.of(data[0])).probs.shape == (34, 4)
    graphs, y = small_graphs()
    items = [geometric.data.Data(x=g.x, edge_index=g.edge_index, y=c[None]) for g, c in zip(graphs, y, strict=True)]
    given = fit(loader.DataLoader(items, batch_size=8), epochs=2)
    assert torch.equal(given.mean(), fit((GraphSet(graphs), y), epochs=2, batch_size=8).mean())


@pytest.mark.slow
def test_the_default_for_few_nodes_is_what_auto_chooses():
    posterior = rn.fit(model(), NODES, patience=None, validation=None, jobs=1, verbose=False)
    assert posterior.settings["algorithm"]["type"] == "MCLMC"
    assert "MCLMC: 32 rows" in posterior.settings["chosen"]
    assert rn.fit(model(), NODES, batch_size=16, verbose=False).settings["algorithm"]["type"] == "SVGI"
    test = posterior.predict((DRAWN.graph, DRAWN.test))
    assert rn.metrics.accuracy(DRAWN.y[DRAWN.test], test.probs) > 0.8
