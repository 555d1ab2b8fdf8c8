"""The sqllogictest runner, and our suites of .slt files.

`python -m sqllogictest FILE...` runs files against a server: `records` reads them, `client` talks to the server,
`results` formats what it answers, `runner` compares, `report` tells. Expected results in `suites` come from PostgreSQL
15 (`--complete` writes them); a known gap is a record `onlyif spark`, `local` or `tidegate` that expects its error.
"""
