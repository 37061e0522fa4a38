"""Distributions that shrinkage hierarchies need and torch lacks, with exact samplers and registered KLs."""

from r2d2net.distributions.bessel import (
    bessel_k_ratio,
    bessel_k_ratio_dx,
    log_bessel_k,
    log_bessel_k_dnu,
    scaled_log_k,
)
from r2d2net.distributions.beta_prime import BetaPrime
from r2d2net.distributions.exponential_integral import scaled_expint
from r2d2net.distributions.generalized_inverse_gaussian import GeneralizedInverseGaussian
from r2d2net.distributions.gig_moments import gig_moments
from r2d2net.distributions.gig_sampler import sample_gig
from r2d2net.distributions.half_cauchy import HalfCauchy
from r2d2net.distributions.inverse_gaussian import InverseGaussian, ReciprocalInverseGaussian
from r2d2net.distributions.kl import kl_gamma_random_rate
from r2d2net.distributions.polya_gamma import PolyaGamma
from r2d2net.distributions.polya_gamma_sampler import sample_polya_gamma
from r2d2net.distributions.primitives import gamma_mean_log, standard_gamma
from r2d2net.distributions.spike_slab_normal import SpikeSlabNormal

__all__ = [
    "BetaPrime",
    "GeneralizedInverseGaussian",
    "HalfCauchy",
    "InverseGaussian",
    "PolyaGamma",
    "ReciprocalInverseGaussian",
    "SpikeSlabNormal",
    "bessel_k_ratio",
    "bessel_k_ratio_dx",
    "gamma_mean_log",
    "gig_moments",
    "kl_gamma_random_rate",
    "log_bessel_k",
    "log_bessel_k_dnu",
    "sample_gig",
    "sample_polya_gamma",
    "scaled_expint",
    "scaled_log_k",
    "standard_gamma",
]
