"""Images of another kind: out-of-distribution detection.

A classifier that has learnt the digits 0 to 4 will call a 7 one of them, too: it has no other answer. What it can do
is to be unsure. Here a small convolutional network learns five digits of scikit-learn's set of 8 x 8 images, under two
priors, and its uncertainty then has to tell these from the other five, and from images whose brightness is inverted.
"""

import torch
from sklearn.datasets import load_digits

import r2d2net as rn

# Images are kept as bytes until one `Preprocess`, fitted to the training images, makes numbers of them. All sets go
# through the same one: sets that are normalised each by its own mean can be told apart by that alone.

digits = load_digits()
images = torch.tensor(digits.images * 255 / 16).to(torch.uint8)[:, None]  # (rows, 1, 8, 8), from 0 to 255
labels = torch.tensor(digits.target)
known = labels < 5
x, y = images[known], labels[known]
train, _, test = rn.data.train_validation_test(len(y), 0.0, 1 / 3, seed=0)
prepare = rn.data.Preprocess.fitted(x[train])
inside = prepare(x[test])
outside = {"digits 5 to 9": prepare(images[~known]), "inverted": prepare(255 - x[test])}

# A score is large where the prediction is uncertain. AUROC is the probability that an image from outside has a larger
# score than one from inside: 1 is perfect, one half is blind, and below that the network is surer of what it does not
# know. Entropy is all uncertainty; mutual information only what the networks drawn from the posterior disagree about.


def report(name: str, posterior: rn.Posterior) -> None:
    """How good the classifier is, and how well its uncertainty tells what is from outside."""
    prediction = posterior.predict(inside)
    wrong = prediction.label != y[test]
    surest = prediction.entropy <= prediction.entropy.quantile(0.75)
    print(f"{name}: {int(wrong.sum())} of {len(test)} digits wrong, {int(wrong[surest].sum())} in the surest 75%")
    for which, others in outside.items():
        for score in ("entropy", "mutual_information"):
            found = rn.metrics.ood_scores(posterior, inside, others, score)
            print(f"  {which:<14}{score:<20}AUROC {found.auroc:.3f}   false alarms at 95% found {found.fpr95_out:.3f}")


# The network has 3 x 3 filters, since the images are small. `standardize=False`: `prepare` has done that already. The
# R2D2 prior looks for few weights that matter. In an image nearly every pixel tells a little, and the Gaussian prior is
# the one to beat: try both on data of your own, and let held-out rows decide.

for name, prior in (("R2D2", rn.priors.R2D2()), ("Gaussian", rn.priors.Gaussian())):
    net = rn.nets.SimpleCNN(1, 5, 8, filters=16, kernel=3)
    model = rn.BayesianModel(net, prior=prior, likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (prepare(x[train]), y[train]), "svgi", epochs=60, standardize=False, seed=0)
    report(name, posterior)
