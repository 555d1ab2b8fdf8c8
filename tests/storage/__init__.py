"""Tests of the storage layer, and the conformance suites of its primitives."""
