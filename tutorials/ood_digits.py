"""Images of another kind: out-of-distribution detection.

A classifier that has learnt the digits 0 to 4 must classify a 7 as one of them; but its prediction can be uncertain.
Here a small convolutional network learns five digits of scikit-learn's set of 8 x 8 images, under two priors. We
measure how well its uncertainty separates these digits from the other five, and from images whose brightness is
inverted.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import r2d2net as rn

# Images are kept as bytes until a `Preprocess`, fitted to the training images, converts them to numbers. All data sets
# must use the same one: data sets normalised by their own means could be separated by the normalisation alone.

digits = load_digits()
images = torch.tensor(digits.images * 255 / 16).to(torch.uint8)[:, None]  # (rows, 1, 8, 8), from 0 to 255
labels = torch.tensor(digits.target)
known = labels < 5
x, y = images[known], labels[known]
train, _, test = rn.data.train_validation_test(len(y), 0.0, 1 / 3, seed=0)
prepare = rn.data.Preprocess.fitted(x[train])
inside = prepare(x[test])
outside = {"digits 5 to 9": prepare(images[~known]), "inverted": prepare(255 - x[test])}

# A score is large where the prediction is uncertain. AUROC is the probability that an image of another kind has a
# larger score than a known digit: 1 is perfect, one half is chance, and below that the network is more certain of the
# unknown images. Entropy is the total uncertainty; mutual information is the disagreement of networks drawn from the
# posterior.


def report(name: str, posterior: rn.Posterior) -> None:
    """Print the classifier's errors, and how well its uncertainty detects images of another kind."""
    prediction = posterior.predict(inside)
    wrong = prediction.label != y[test]
    surest = prediction.entropy <= prediction.entropy.quantile(0.75)
    print(f"{name}: {int(wrong.sum())} of {len(test)} digits wrong, {int(wrong[surest].sum())} in the surest 75%")
    for kind, others in outside.items():
        for score in ("entropy", "mutual_information"):
            scores = rn.metrics.ood_scores(posterior, inside, others, score)
            print(f"  {kind:<14}{score:<20}AUROC {scores.auroc:.3f}   false alarms at 95% found {scores.fpr95_out:.3f}")


# The network has 3 x 3 filters, since the images are small. `standardize=False`, because `prepare` has standardised
# already. The R2D2 prior favours networks with few large weights. In an image nearly every pixel carries a little
# information, and the Gaussian prior may be better: compare both on held-out rows of your own data.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for panel, (name, prior) in enumerate((("R2D2", rn.priors.R2D2()), ("Gaussian", rn.priors.Gaussian()))):
    net = rn.nets.SimpleCNN(1, 5, 8, filters=16, kernel=3)
    model = rn.BayesianModel(net, prior=prior, likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (prepare(x[train]), y[train]), "svgi", epochs=60, standardize=False, seed=0)
    report(name, posterior)
    for kind, images_of_kind in {"known digits": inside, **outside}.items():
        entropy = posterior.predict(images_of_kind).entropy
        axes[panel].hist(entropy, bins=30, range=(0, 1.61), density=True, alpha=0.5, label=kind)
    axes[panel].set(title=f"{name} prior", xlabel="entropy of the prediction, nats")

# In a picture: the better two kinds are told apart, the less their entropies overlap. The largest entropy of five
# classes is 1.61 nats.

axes[0].set(ylabel="density")
axes[1].legend(frameon=False)
figure.savefig("ood_digits.png", dpi=80)
