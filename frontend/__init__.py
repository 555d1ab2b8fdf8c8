"""Bytes to statements: the PostgreSQL wire protocol, COPY, result encoding, the command line."""
