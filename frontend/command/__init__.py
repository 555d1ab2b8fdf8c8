"""The command line: `tidegate serve`, `tidegate admin`, their options and the configuration that these make up.

May import every other room of the frontend and the storeys below, but only inside the functions that run a command, so
that `--help` and wrong usage load none of it. Read `main` first.
"""
