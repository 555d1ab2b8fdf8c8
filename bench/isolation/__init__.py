"""Who disturbs whom: the sessions that `bench_isolation` measures, and those that it sets beside them."""
