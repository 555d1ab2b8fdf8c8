"""Tests of the sqllogictest runner, and the suites on a real PostgreSQL."""
