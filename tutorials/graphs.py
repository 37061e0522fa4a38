"""Graphs: which features of its nodes count.

Networks of graphs read all nodes at once, and few nodes have labels. We name the two clubs of a karate school from four
members, then draw a graph like those of citations, where 5 of 50 words tell the group of a node, and ask which.
"""

import matplotlib.pyplot as plt
import networkx
import torch
from torch import nn

import r2d2net as rn

# Zachary's karate club comes with networkx, on which torch depends. Its members have no features, so each has one of
# its own. Of 34 members we know the club of four.

school = networkx.karate_club_graph()
edges = torch.tensor(list(school.edges)).T
club = torch.tensor([int(school.nodes[i]["club"] == "Officer") for i in school])
graph = rn.graphs.Graph(torch.eye(34), torch.cat([edges, edges.flip(0)], 1))
known = torch.tensor([0, 1, 32, 33])
others = torch.tensor([i for i in range(34) if i not in known.tolist()])

torch.manual_seed(0)
categorical = rn.likelihoods.Categorical()
model = rn.BayesianModel(rn.nets.GCN(34, [8], 2), rn.priors.Gaussian(), categorical)
posterior = rn.fit(model, ((graph, known), club[known]), epochs=200, seed=0)
right = rn.metrics.accuracy(club[others], posterior.predict((graph, others)).probs)
print(f"karate club: {right:.2f} of 30 members right, from 4 that are known")

# The second graph is drawn: 800 nodes in four groups with 50 words, of which 5 tell the group, and 80 labels. Rows are
# nodes; the graph travels beside them. A plain network of the same form, with the usual weight decay and dropout, is
# what we compare with.

drawn = rn.graphs.block_model(degree=5.0, mixing=0.2, rarely=0.1, seed=1)
x, edge_index = drawn.graph.x, drawn.graph.edge_index
torch.manual_seed(0)
plain = rn.nets.GCN(50, [16], 4, dropout=0.5)
optimiser = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(200):
    optimiser.zero_grad()
    nn.functional.cross_entropy(plain(x, edge_index)[drawn.train], drawn.y[drawn.train]).backward()
    optimiser.step()
plain.eval()

model = rn.BayesianModel(rn.nets.GCN(50, [16], 4), likelihood=categorical)
posterior = rn.fit(model, ((drawn.graph, drawn.train), drawn.y[drawn.train]), epochs=1000, seed=0)
truth = drawn.y[drawn.test]
predicted = {
    "plain": plain(x, edge_index)[drawn.test].softmax(1).detach(),
    "R2D2": posterior.predict((drawn.graph, drawn.test)).probs,
}
for name, probs in predicted.items():
    print(f"{name}: right {rn.metrics.accuracy(truth, probs):.2f}, NLL {rn.metrics.nll(truth, probs):.2f}")

# Relevance is of the features of nodes: each word is shuffled over all nodes, and the change of the output is measured.

relevance = rn.shrinkage.input_relevance(posterior, drawn.graph, draws=20, shuffles=2)
first = relevance.share.argsort(descending=True)[:5]
found = len(set(first.tolist()) & set(drawn.real.tolist()))
print(f"{found} of the 5 real words are the first five by relevance")

figure, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
colours = ["tab:red" if word in drawn.real.tolist() else "0.7" for word in range(50)]
ax.bar(range(50), relevance.share.tolist(), color=colours)
ax.set(xlabel="word (red: those that tell the group)", ylabel="share of the relevance")
figure.savefig("graphs.png", dpi=80)
