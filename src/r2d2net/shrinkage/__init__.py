"""Effects of shrinkage on a fitted network: the inputs that it uses and its effective number of weights."""

from r2d2net.shrinkage.effective_weights import effective_weights
from r2d2net.shrinkage.relevance import Relevance, input_relevance

__all__ = ["Relevance", "effective_weights", "input_relevance"]
