"""Spark Connect: a Spark whose driver is a server elsewhere, which is spoken to over gRPC. Read `runtime` first.

May import all of `adapter.engines.spark`. Its packages (pandas, grpcio, ...) are those of requirements-connect.lock.
"""
