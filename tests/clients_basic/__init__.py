"""Tools as their users have them, run against a PostgreSQL 15 and against Tidegate: ``make clients-basic``.

`client` says what a client is: how it is installed, and its checks, each a session of the tool that asserts what it
sees and returns what can be compared. `installing` puts the pinned versions below .cache/clients-basic; `__main__` runs
the checks on both servers, and `page` writes docs/clients-basic.md. The other modules are a client each, with the files
that it works on in `projects/`. `locks/` pins the Python packages: `make lock` writes it.

A check that PostgreSQL fails is a fault of the check. What Tidegate is known not to do is stated beside its check as a
`Gap`, and fails when it starts to work.
"""
