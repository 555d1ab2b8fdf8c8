"""What a server tells those who watch it from outside: metrics for Prometheus.

May import everything but `sessions`. Read `server_metrics` first.
"""
