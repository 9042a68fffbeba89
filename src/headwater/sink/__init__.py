"""Sinks: where the rows of a pipeline go, and what is promised about them."""
