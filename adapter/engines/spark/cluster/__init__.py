"""Spark on other machines than the server's, over an object store: what executors are sent, and what they write.

May import `engines.common`, and of the storage its stores and parts. Read `object_store` first, then `executor_writes`.
"""
