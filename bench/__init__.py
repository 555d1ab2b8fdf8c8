"""Benchmarks against peers, each one command that prints a table and one line of JSON."""
