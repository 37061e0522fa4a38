"""What shrinkage leaves of a network: which inputs it uses, and how many weights."""

from r2d2net.shrinkage.effective_weights import effective_weights
from r2d2net.shrinkage.relevance import Relevance, input_relevance

__all__ = ["Relevance", "effective_weights", "input_relevance"]
