"""The Join Order Benchmark's shape: tables like IMDB's, data of ours with its skew and correlation, a query of ours for
each of its 33 families. Start with `load`.
"""
