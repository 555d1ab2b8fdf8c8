"""TPC-DS: its schema, data and the 99 queries by DuckDB's extension, Spark's texts of them, and who is right.

`packaged` is run by an interpreter that has DuckDB's extension (`scripts/setup.sh tpcds`); start with `load`.
"""
