"""The sqllogictest runner, and our suites of .slt files."""
