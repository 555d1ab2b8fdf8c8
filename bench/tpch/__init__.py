"""TPC-H: schema, data by tpchgen-cli, and the 22 queries with the specification's validation parameters."""
