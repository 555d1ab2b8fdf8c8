"""The function registry: each PostgreSQL function, operator, aggregate and window function, once."""
