"""Which inputs count: tabular regression.

A table has twenty columns, of which the target uses four, and those in products of each other: a linear model sees
little of them. We fit a Bayesian network with the R2D2 prior, ask which columns it uses, and check its intervals on
rows that it has not seen. The table is simulated, so the truth is known: it is the paper's second scenario,
`y = x1 (x2^2 + 1) + x3 x4 + noise`, with sixteen columns of pure noise beside it.
"""

import torch
from sklearn.linear_model import RidgeCV

import r2d2net as rn

# `simulate` draws the rows, and tells the noiseless mean and the standard deviation of the noise. The columns without
# influence are drawn from the same range.

simulated = rn.data.simulate("2", n=3000, seed=0)
nothing = torch.empty(3000, 16).uniform_(-5, 5, generator=torch.Generator().manual_seed(1))
x, y = torch.cat([simulated.x, nothing], 1), simulated.y
names = [f"x{i + 1}" for i in range(4)] + [f"noise{i + 1}" for i in range(16)]
train, _, test = rn.data.train_validation_test(3000, 0.0, 1 / 3, seed=0)

# Any module will do; here it is a perceptron of two hidden layers. `fit` standardises inputs and target inside.
# Rows named by `validation` are not trained on: they correct the noise variance, and so the width of the intervals.

net = rn.nets.mlp(20, [50, 50], 1)
model = rn.BayesianModel(net, prior=rn.priors.R2D2(), likelihood=rn.likelihoods.Gaussian())
posterior = rn.fit(model, (x[train], y[train]), "svgi", epochs=80, validation=0.1, seed=0)

# A prediction is a mixture of normals, one for each network drawn from the posterior. An interval of 90% should hold
# 90% of the new rows, and the root mean square error can at best be the deviation of the noise, 3.

prediction = posterior.predict(x[test])
low, high = prediction.interval(0.9)
linear = RidgeCV().fit(x[train].numpy(), y[train].numpy()).predict(x[test].numpy())
print(
    f"RMSE: network {rn.metrics.rmse(y[test], prediction.mean):.2f}, ridge regression "
    f"{rn.metrics.rmse(y[test], linear):.2f}, noise {simulated.noise:.2f}"
)
print(f"90% intervals hold {rn.metrics.coverage(y[test], low, high):.1%} of {len(test)} new rows")

# The relevance of a column is the share of the output's variance that goes when the column is shuffled. Every network
# drawn from the posterior has its own, so relevance comes with an interval. A column is kept if at least 95% of the
# draws give it 1% or more.

relevance = rn.shrinkage.input_relevance(posterior, x[train][:500], draws=50)
for i in relevance.mean.argsort(descending=True)[:6].tolist():
    ends = f"{relevance.low[i]:6.1%} to {relevance.high[i]:6.1%}"
    print(f"{names[i]:>8} {relevance.mean[i]:6.1%}  ({ends})  {'kept' if relevance.kept[i] else 'dropped'}")
kept = [name for name, keep in zip(names, relevance.kept.tolist(), strict=True) if keep]
print("kept:", ", ".join(kept))
