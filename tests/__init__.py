"""The tests: one folder per package, and whole-system suites beside them."""
