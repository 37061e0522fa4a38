"""Every summary of a prediction against brute force, scipy or a case that can be solved by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from r2d2net.errors import DataError, ParameterError
from r2d2net.prediction import Classification, Counts, Regression


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def regression(draws: int = 7, rows: int = 4) -> Regression:
    samples = 3 * torch.randn(draws, rows, generator=generator(), dtype=torch.float64)
    variance = 0.1 + torch.rand(draws, rows, generator=generator(1), dtype=torch.float64)
    return Regression(samples, variance)


def observations(prediction: Regression, n: int) -> torch.Tensor:
    """n new observations of every draw: (draws * n, rows)."""
    noise = torch.randn(n, *prediction.samples.shape, generator=generator(2), dtype=torch.float64)
    return (prediction.samples + prediction.noise_variance.sqrt() * noise).flatten(0, 1)


def test_variance_splits_into_epistemic_and_aleatoric():
    prediction = regression()
    torch.testing.assert_close(prediction.std**2, prediction.epistemic**2 + prediction.aleatoric**2)
    # 700,000 observations: a relative error of .01 is over five standard errors of a variance, false alarm below 1e-5
    seen = observations(prediction, 100_000)
    torch.testing.assert_close(prediction.std**2, seen.var(0), rtol=0.01, atol=0)
    torch.testing.assert_close(prediction.mean, seen.mean(0), rtol=0, atol=0.02)


@pytest.mark.parametrize("probability", [1e-3, 0.05, 0.5, 0.9, 0.999])
def test_quantile_of_the_mixture_holds_its_probability(probability):
    prediction = regression()
    deviation = prediction.noise_variance.sqrt()
    q = prediction.quantile(probability)
    held = stats.norm.cdf(((q - prediction.samples) / deviation).numpy()).mean(0)
    np.testing.assert_allclose(held, probability, rtol=1e-9)
    # the share of 70,000 draws below it: five standard errors, false alarm 2e-6 in all
    share = (observations(prediction, 10_000) <= q).double().mean(0)
    bound = 5 * math.sqrt(probability * (1 - probability) / 70_000)
    np.testing.assert_allclose(share.numpy(), probability, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("probability", [1e-12, 0.25, 1 - 1e-9])
def test_quantile_of_one_draw_is_normal(probability, dtype):
    prediction = Regression(torch.tensor([[1.0, -2.0]], dtype=dtype), torch.tensor([4.0, 0.25], dtype=dtype))
    expected = stats.norm.ppf(probability, [1, -2], [2, 0.5])
    # next to 1 the distribution function itself has but 16 digits: 1e-16 / density(6) = 2e-8
    tolerance = 1e-6 if dtype == torch.float32 else 1e-7 if probability > 0.5 else 1e-9
    np.testing.assert_allclose(prediction.quantile(probability).numpy(), expected, rtol=tolerance)


def test_interval_is_central():
    prediction = regression()
    low, high = prediction.interval(0.8)
    torch.testing.assert_close(low, prediction.quantile(0.1))
    torch.testing.assert_close(high, prediction.quantile(0.9))


def test_regression_log_prob_is_that_of_the_mixture():
    prediction = regression()
    y = torch.tensor([0.0, 1.0, -2.0, 30.0], dtype=torch.float64)
    terms = stats.norm.logpdf(y.numpy(), prediction.samples.numpy(), prediction.noise_variance.sqrt().numpy())
    expected = special.logsumexp(terms, axis=0) - math.log(7)
    np.testing.assert_allclose(prediction.log_prob(y).numpy(), expected, rtol=1e-12)


def test_log_prob_takes_the_outputs_together():
    samples = torch.randn(5, 3, 2, generator=generator(), dtype=torch.float64)
    variance = torch.tensor([0.5, 2.0], dtype=torch.float64)
    y = torch.zeros(3, 2, dtype=torch.float64)
    terms = stats.norm.logpdf(0, samples.numpy(), variance.sqrt().numpy()).sum(-1)
    expected = special.logsumexp(terms, axis=0) - math.log(5)
    np.testing.assert_allclose(Regression(samples, variance).log_prob(y).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("draws", [1, 4])
def test_a_column_of_targets_is_the_same_as_a_row_of_them(draws):
    """Broadcasting would pair every target with every prediction instead."""
    y = torch.tensor([0.0, 1.0, -2.0, 30.0], dtype=torch.float64)
    flat = regression(draws)
    tall = Regression(flat.samples[..., None], flat.noise_variance[..., None])
    for prediction in (flat, tall):
        torch.testing.assert_close(prediction.log_prob(y), prediction.log_prob(y[:, None]))
    with pytest.raises(DataError, match=r"y has shape \(3,\), the prediction \(4,\)"):
        flat.log_prob(y[:3])


def test_targets_need_not_be_on_the_device_of_the_prediction():
    elsewhere = Regression(torch.zeros(3, 4, device="meta"), torch.ones((), device="meta"))
    assert elsewhere.log_prob(torch.zeros(4)).shape == (4,)


def probabilities(draws: int = 6) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(draws, 5, 3, generator=generator(), dtype=torch.float64), -1)


def test_classification_summaries():
    prediction = Classification(probabilities())
    mean = prediction.samples.numpy().mean(0)
    np.testing.assert_allclose(prediction.probs.numpy(), mean)
    np.testing.assert_allclose(prediction.entropy.numpy(), stats.entropy(mean, axis=-1))
    np.testing.assert_array_equal(prediction.label.numpy(), mean.argmax(-1))
    np.testing.assert_allclose(prediction.max_prob.numpy(), mean.max(-1))
    y = torch.tensor([0, 1, 2, 1, 0])
    np.testing.assert_allclose(prediction.log_prob(y).numpy(), np.log(mean[np.arange(5), y.numpy()]))
    torch.testing.assert_close(prediction.log_prob(y), prediction.log_prob(y[:, None].double()))


def test_mutual_information_is_the_mean_divergence_of_the_draws_from_their_average():
    prediction = Classification(probabilities())
    p, mean = prediction.samples.numpy(), prediction.probs.numpy()
    expected = special.rel_entr(p, mean).sum(-1).mean(0)
    np.testing.assert_allclose(prediction.mutual_information.numpy(), expected, rtol=1e-9)
    assert bool((prediction.mutual_information > 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mutual_information_is_zero_where_the_draws_agree(dtype):
    agreed = probabilities(1).to(dtype).expand(8, -1, -1)
    prediction = Classification(agreed)
    assert bool((prediction.mutual_information >= 0).all())
    assert float(prediction.mutual_information.max()) < 10 * torch.finfo(dtype).eps
    certain = Classification(torch.eye(3).expand(4, -1, -1))
    assert bool((certain.entropy == 0).all())
    assert bool((certain.mutual_information == 0).all())


@pytest.mark.parametrize("y", [[0, 1, 2, 3, 0], [0, 1, 2, -1, 0], [0, 1, 2, 0.5, 0]])
def test_a_class_that_does_not_exist_is_refused(y):
    with pytest.raises(DataError, match=r"outside 0, ..., 2"):
        Classification(probabilities()).log_prob(torch.tensor(y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("probability", [1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])
def test_count_quantiles_of_one_rate_are_exact(probability, dtype):
    rate = torch.tensor([[1e-9, 0.05, 1.0, 7.3, 250.0, 1e5]], dtype=dtype)
    expected = stats.poisson.ppf(probability, rate[0].double().numpy())
    np.testing.assert_array_equal(Counts(rate).quantile(probability).numpy(), expected)


def test_count_quantile_of_the_mixture():
    rate = torch.tensor([[0.5, 100.0], [20.0, 101.0], [60.0, 3.0]], dtype=torch.float64)
    q = Counts(rate).quantile(0.7).numpy()
    assert (stats.poisson.cdf(q, rate.numpy()).mean(0) >= 0.7).all()
    assert (stats.poisson.cdf(q - 1, rate.numpy()).mean(0) < 0.7).all()


def test_count_quantiles_of_rates_beyond_whole_numbers_end():
    q = Counts(torch.tensor([[1e9, 1e30, math.inf]])).quantile(0.5)
    assert float(q[0]) == pytest.approx(1e9, rel=1e-6)
    assert bool(torch.isfinite(q).all())


def test_count_moments_and_log_prob():
    rate = torch.tensor([[0.5, 3.0], [2.0, 4.0]], dtype=torch.float64)
    prediction = Counts(rate)
    y = torch.tensor([0.0, 6.0], dtype=torch.float64)
    expected = np.log(stats.poisson.pmf(y.numpy(), rate.numpy()).mean(0))
    np.testing.assert_allclose(prediction.log_prob(y).numpy(), expected, rtol=1e-12)
    support = np.arange(200)[:, None]
    pmf = (stats.poisson.pmf(support, rate[0].numpy()) + stats.poisson.pmf(support, rate[1].numpy())) / 2
    mean = (support * pmf).sum(0)
    np.testing.assert_allclose(prediction.mean.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(prediction.std.numpy() ** 2, (support**2 * pmf).sum(0) - mean**2, rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90, math.nan])
@pytest.mark.parametrize("prediction", [regression(), Counts(torch.ones(2, 3))])
def test_a_level_outside_zero_and_one_is_refused(prediction, level):
    with pytest.raises(ParameterError, match=r"^level=.* between 0 and 1"):
        prediction.interval(level)
    with pytest.raises(ParameterError, match=r"^probability="):
        prediction.quantile(level)


def test_distribution_function_is_that_of_the_mixture():
    """Against scipy's normal law, and far in the tail; quantiles are its inverse."""
    samples = torch.tensor([[0.0, 1.0], [2.0, -1.0]])
    predicted = Regression(samples, torch.tensor([4.0]))
    y = torch.tensor([0.5, -30.0])
    expected = stats.norm.cdf(y.numpy(), samples.numpy(), 2.0).mean(0)
    np.testing.assert_allclose(predicted.cdf(y).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(predicted.cdf(predicted.quantile(0.3)).numpy(), 0.3, atol=1e-6)


@pytest.mark.parametrize("probability", [1e-9, 0.05, 0.5, 0.95, 1 - 1e-6])
@pytest.mark.parametrize("far", [0.0, 3.0, 1e4], ids=["one mode", "two modes", "far modes"])
def test_quantiles_invert_the_distribution_function(probability, far):
    """Below them lies less than the probability, and above them more, but for 1e-7 of the noise's deviation."""
    g = torch.Generator().manual_seed(0)
    samples = torch.randn(20, 50, generator=g, dtype=torch.float64)
    samples[:7] += far
    prediction = Regression(samples, torch.rand(20, 1, generator=g, dtype=torch.float64) + 0.01)
    quantile = prediction.quantile(probability)
    least = 1e-7 * prediction.noise_variance.sqrt().min()
    assert (prediction.cdf(quantile - least) < probability).all()
    assert (prediction.cdf(quantile + least) > probability).all()
