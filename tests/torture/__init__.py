"""Killing the product at every point of its work: `python -m tests.torture`, or `make torture`."""
