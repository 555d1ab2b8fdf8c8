"""The own test suites of clients, unmodified, run against a PostgreSQL 15 and against Tidegate: ``make clients``.

`suite` says what a suite is: where its tests come from, and what became of each on a server. The modules `python`,
`go`, `java` and `node` are the suites of a language; `reasons` says why tests fail on Tidegate that PostgreSQL 15
passes, and `page` writes docs/clients.md. Nothing of the suites is part of the project: they are fetched when they run,
from source distributions, Go modules, Maven and Debian's source packages, or taken from checkouts (`--sources FOLDER`).

What fails and is in no reason makes the run fail.
"""
