"""A smaller network: filters and units that are not needed.

A convolutional network reads scikit-learn's handwritten digits, 8 x 8 pixels. It has more filters and units than it
needs. Under a prior that shares scales within filters those that are not needed go, and what is left is a plain network
with the uncertainty of its weights.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import r2d2net as rn
from r2d2net.shrinkage import compress, pruning_curve, quantise

# Rows for training, rows that choose how far to cut, and rows that only judge in the end.

digits = load_digits()
images = torch.tensor(digits.images[:, None], dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
training, validation, test = ((images[rows], labels[rows]) for rows in order.split([1097, 300, 400]))

torch.manual_seed(0)
net = nn.Sequential(
    *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
    *(nn.Linear(96, 40), nn.ReLU(), nn.Linear(40, 10)),
)

# One scale is shared by all weights of a filter and by all weights of an input of a linear layer.

prior = rn.priors.GroupR2D2(groups="filters")
model = rn.BayesianModel(net, prior, rn.likelihoods.Categorical())
posterior = rn.fit(model, training, "cavi", epochs=40, seed=0, standardize=False, verbose=False)

# How much is lost as ever more single weights go, without any training in between.

curve = pruning_curve(posterior, validation, [1, 2, 4, 7, 10, 15, 20, 30])

# Whole filters and units go in rounds, and what is left is fitted again after each. The last round counts after which
# the mean log density of validation rows is within one standard error of what it was.

rounds = compress(
    posterior, training, validation=validation, thresholds=(1, 4, 12, 30), refit_epochs=20, standardize=False
)
smaller = rounds.smaller()
print(smaller)


def wrong(fitted: rn.Posterior) -> int:
    """Count the test digits that are told wrong."""
    return int((fitted.predict(test[0], draws=50).label != test[1]).sum())


print(f"wrong of 400 digits: {wrong(posterior)} before, {wrong(smaller.posterior)} after")
parameters, size, operations = smaller.measure(test[0], repeats=2)[:3]
for row in (parameters, size, operations):
    print(f"{row.quantity}: {row.before:,.0f} -> {row.after:,.0f}")

# The posterior also tells how many digits of a weight mean something.

in_bits = quantise(smaller.posterior, validation=validation)
print(f"{in_bits.bits:.1f} bits a weight: {wrong(in_bits.posterior)} wrong")

# In a picture: what a cut costs, the filters of the first layer before and after in one range of colours, and the units
# of every layer.

net.load_state_dict(posterior.state_dict())
before, after = (each[0].weight.detach().flatten(0, 1) for each in (net, smaller.net))
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained", width_ratios=[3, 2, 2, 3])
curve.plot(ax=axes[0])
for panel, filters, title in ((axes[1], before, "filters before"), (axes[2], after, "after")):
    sheet = torch.full((16, 3, 3), torch.nan)
    sheet[: len(filters)] = filters
    sheet = nn.functional.pad(sheet, (0, 1, 0, 1), value=torch.nan).view(4, 4, 4, 4).permute(0, 2, 1, 3).reshape(16, 16)
    limit = float(before.abs().max())
    panel.imshow(sheet.numpy(), cmap="RdBu", vmin=-limit, vmax=limit)
    panel.set(title=title)
    panel.axis("off")
names = [row.layer for row in smaller.layers]
for offset, count in ((0.2, [row.before for row in smaller.layers]), (-0.2, [row.after for row in smaller.layers])):
    axes[3].barh([place + offset for place in range(len(names))], count, 0.4, color="C0" if offset < 0 else "0.75")
axes[3].set(yticks=range(len(names)), yticklabels=names, xlabel="units before (grey) and after")
figure.savefig("smaller_network.png", dpi=80)
