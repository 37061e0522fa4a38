"""What shrinkage leaves of a network: which inputs it uses."""

from r2d2net.shrinkage.relevance import Relevance, input_relevance

__all__ = ["Relevance", "input_relevance"]
