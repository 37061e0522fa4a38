"""Which inputs count: tabular regression.

A table has twenty columns, of which the target depends on four, mostly through products that a linear model cannot
represent. We fit a Bayesian network with the R2D2 prior, find the columns that it uses, and check its intervals on new
rows. The table is simulated, so the truth is known: it is the paper's second scenario,
`y = x1 (x2^2 + 1) + x3 x4 + noise`, with sixteen further columns of pure noise.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.linear_model import RidgeCV

import r2d2net as rn

# `simulate` draws the rows, and returns the noiseless mean and the standard deviation of the noise with them. The
# columns without influence are drawn from the same range.

simulated = rn.data.simulate("2", n=3000, seed=0)
noise = torch.empty(3000, 16).uniform_(-5, 5, generator=torch.Generator().manual_seed(1))
x, y = torch.cat([simulated.x, noise], 1), simulated.y
names = [f"x{i + 1}" for i in range(4)] + [f"noise{i + 1}" for i in range(16)]
train, _, test = rn.data.train_validation_test(3000, 0.0, 1 / 3, seed=0)

# The network may be any module; here it is a perceptron of two hidden layers. `fit` standardises inputs and target.
# The rows held out by `validation` are not used for training: they correct the noise variance, and so the width of the
# intervals.

net = rn.nets.mlp(20, [50, 50], 1)
model = rn.BayesianModel(net, prior=rn.priors.R2D2(), likelihood=rn.likelihoods.Gaussian())
posterior = rn.fit(model, (x[train], y[train]), "svgi", epochs=80, validation=0.1, seed=0)

# A prediction is a mixture of normals, one for each network drawn from the posterior. Intervals of 90% should contain
# 90% of the new rows, and the root mean square error is at best the standard deviation of the noise, 3.

prediction = posterior.predict(x[test])
low, high = prediction.interval(0.9)
linear = RidgeCV().fit(x[train].numpy(), y[train].numpy()).predict(x[test].numpy())
print(
    f"RMSE: network {rn.metrics.rmse(y[test], prediction.mean):.2f}, ridge regression "
    f"{rn.metrics.rmse(y[test], linear):.2f}, noise {simulated.noise:.2f}"
)
print(f"90% intervals hold {rn.metrics.coverage(y[test], low, high):.1%} of {len(test)} new rows")

# The relevance of a column is the share of the output's variance that is lost when the column is shuffled. It differs
# between the networks drawn from the posterior, so relevance has an interval. A column is needed if its relevance is
# 1% or more in at least 95% of the draws, and the columns that rank first are kept, as far as most of them are needed.

relevance = rn.shrinkage.input_relevance(posterior, x[train][:500], draws=50)
for i in relevance.mean.argsort(descending=True)[:6].tolist():
    ends = f"{relevance.low[i]:6.1%} to {relevance.high[i]:6.1%}"
    print(f"{names[i]:>8} {relevance.mean[i]:6.1%}  ({ends})  {'kept' if relevance.kept[i] else 'dropped'}")
kept = [name for name, keep in zip(names, relevance.kept.tolist(), strict=True) if keep]
print("kept:", ", ".join(kept))

# In a picture: a hundred new rows with their intervals, and the columns with theirs.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
some = slice(0, 100)
half = torch.stack([prediction.mean - low, high - prediction.mean])[:, some]
left.errorbar(
    prediction.mean[some].numpy(), y[test][some].numpy(), xerr=half.numpy(), fmt=".", elinewidth=0.6, color="tab:blue"
)
left.plot([-150, 150], [-150, 150], color="0.6", linewidth=1)
left.set(xlabel="predicted, with 90% interval", ylabel="observed", xlim=(-150, 150), ylim=(-150, 150))
order = relevance.mean.argsort(descending=True)[:8].flip(0)
ends = torch.stack([relevance.mean - relevance.low, relevance.high - relevance.mean])[:, order].numpy()
columns, shares = [names[i] for i in order.tolist()], relevance.mean[order].numpy()
right.barh(columns, shares, xerr=ends, color="tab:blue", ecolor="0.4")
right.set(xlabel="share of the variance that is lost when shuffled")
figure.savefig("input_selection.png", dpi=80)
