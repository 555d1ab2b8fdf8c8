"""Functions in Python that the local engine calls where SQL cannot say what PostgreSQL does."""
