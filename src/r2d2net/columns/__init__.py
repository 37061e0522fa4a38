"""Columns of a table as inputs of a network: what each column is, learnt from training rows, and how it is encoded."""
