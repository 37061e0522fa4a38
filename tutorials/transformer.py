"""A Transformer: a network that is already trained.

A small Transformer reads twelve tokens and predicts whether token 0 comes before token 1. One label in ten is wrong, in
training and in the test, and there are only 600 sequences. Trained as usual, the network memorises the wrong labels and
is overconfident. We make its encoder Bayesian, starting from the trained weights, and compare.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import r2d2net as rn

# The task: with one label in ten flipped no network can be right more than nine times in ten, and a network that knows
# the rule and the noise has a negative log likelihood of 0.325 nats.


def sequences(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw tokens (rows, 12), with one 0 and one 1 in each row, and labels of which a tenth is wrong."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, 10, (rows, 12), generator=g)
    places = torch.rand(rows, 12, generator=g).argsort(1)[:, :2]
    tokens.scatter_(1, places, torch.tensor([[0, 1]]).expand(rows, 2))
    first = places[:, 0] < places[:, 1]
    return tokens, (first ^ (torch.rand(rows, generator=g) < 0.1)).long()


x, y = sequences(600, seed=0)
x_test, y_test = sequences(1000, seed=100)

# The network is torch's Transformer encoder, with learnt embeddings of the positions added to those of the tokens.


class Reader(nn.Module):
    """Twelve tokens to two logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 16), nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.tokens(tokens) + self.places.weight).mean(1))


torch.manual_seed(0)
net = Reader()
optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
for _ in range(40):
    for rows in torch.randperm(len(x)).split(50):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimiser.step()
net.eval()

# Priors are given by patterns of parameter names. Here attention, the linear layers and the head have the R2D2 prior.
# Embeddings match no pattern: they are trained further, but are not Bayesian, and the same goes for normalisation
# layers. `start="net"` begins with the trained weights, and `lr` is smaller than by default, so that the first steps do
# not undo the training: on held-out rows of other training sets, 0.1 was the only one of three step sizes that never
# did.

prior = {name: rn.priors.R2D2() for name in ("encoder.*.self_attn.*weight", "encoder.*.linear?.weight", "head.weight")}
model = rn.BayesianModel(net, prior=prior, likelihood=rn.likelihoods.Categorical())
print(model)
posterior = rn.fit(model, (x, y), rn.inference.SVGI(start="net", lr=0.1), epochs=30, batch_size=50, seed=0)

# `right` is the accuracy, and `sure` the mean probability of the predicted classes; of a calibrated network they are
# equal. In the average over drawn networks memorised wrong labels have less weight, and the prediction is better and
# less confident.

plain = net(x_test).softmax(1).detach()
bayesian = posterior.predict(x_test, draws=50)
for name, probs in (("plain", plain), ("Bayesian", bayesian.probs)):
    right, sure = rn.metrics.accuracy(y_test, probs), float(probs.amax(1).mean())
    print(f"{name:>8}: right {right:.3f}, sure {sure:.3f}, NLL {rn.metrics.nll(y_test, probs):.3f}")

# The uncertainty has two parts: overlap of the classes, here by wrong labels, and disagreement of the networks.

print(
    f"entropy {bayesian.entropy.mean():.3f} = {bayesian.aleatoric.mean():.3f} that the networks agree on"
    f" + {bayesian.mutual_information.mean():.3f} that they do not"
)

# In a picture: of the sequences of which a network is so sure, how many it gets right. On the line it is calibrated.

figure, ax = plt.subplots(figsize=(5, 3.8), layout="constrained")
ax.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1)
for name, probs in (("plain", plain), ("Bayesian", bayesian.probs)):
    sure, right = probs.amax(1), (probs.argmax(1) == y_test).float()
    fifths = sure.argsort().chunk(5)
    ax.plot([sure[part].mean() for part in fifths], [right[part].mean() for part in fifths], "o-", label=name)
ax.set(xlabel="probability of the predicted class", ylabel="share that is right")
ax.legend(frameon=False)
figure.savefig("transformer.png", dpi=80)

# Any draw is a state dict of the plain network and can be used wherever that network is used.

net.load_state_dict(next(posterior.state_dicts(1, seed=0)))
print(f"one drawn network: right {rn.metrics.accuracy(y_test, net(x_test).softmax(1).detach()):.3f}")
