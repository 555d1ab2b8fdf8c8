"""Why tests fail on Tidegate that PostgreSQL 15 passes."""

from __future__ import annotations

import re

_REASONS: tuple[tuple[str, str, str], ...] = (
    # the suite, what the test's name or what it prints has, and why: the first that fits
    ("", r"DO is not supported", "`DO` is refused: no plpgsql"),
    ("", r"language plpgsql", "no plpgsql"),
    ("", r"shell types are not supported", "base types of users are refused"),
    ("", r"functions in language c are not supported", "functions in C are refused"),
    ("", r"CREATE RULE is not supported", "rules are refused"),
    ("", r"[Hh]store", "no extension `hstore`"),
    ("", r"ranges over type citext", "no ranges over `citext`"),
    ("", r'extension "isn"', "no extension `isn`"),
    ("", r'extension "ltree"|ltree', "no extension `ltree`"),
    ("", r"type xml is not supported", "no `xml`"),
    ("", r"type (tsvector|tsquery) is not supported|function \w*to_ts(vector|query)\(", "no types of text search"),
    ("", r"partitioned tables are not supported", "no partitioned tables"),
    ("", r"table inheritance is not supported", "no inheritance of tables"),
    ("", r"rows whose fields are not known", "rows are sent in binary only where their fields are known"),
    ("psycopg", r"test_load_record_binary", "a constant of no type in a row is sent as `text`"),
    ("psycopg", r"test_errors_raised_on_|test_sync_syncs_errors", "the suite says of them that they fail at random"),
    ("node-postgres", r"notice-tests", "`DO` is refused: no plpgsql"),
    (
        "pgjdbc",
        r'"pg_description" is a system catalog',
        "its set-up changes `pg_description` by hand, and makes functions in plpgsql",
    ),
    ("pgjdbc", r'"pg_class" is a system catalog', "system catalogs are not changed by hand"),
    ("pgjdbc", r"libxml", "no `xml`"),
    ("pgjdbc", r"CompositeTest", "a whole row of a table is sent as `record`"),
    ("pgjdbc", r"TransactionIsolation", "transactions are SERIALIZABLE where nothing is said"),
    ("psycopg2", r"NotGreedy|not_greedy", "a cursor computes rows ahead of those that are asked for"),
    ("psycopg2", r"test_isolation_level_read_committed", "transactions are SERIALIZABLE where nothing is said"),
    ("psycopg2", r"test_isolation_level_serializable", "SERIALIZABLE finds a conflict that PostgreSQL lets pass"),
    ("SQLAlchemy", r"test_generate_series_scalar", "a join without ORDER BY gives its rows in another order"),
    (
        "asyncpg",
        r"test_execute_script_check_transactionality|test_prepare_1[46]",
        "`1/0` fails when it is evaluated, not when the statement is planned",
    ),
    (
        "asyncpg",
        r"test_executemany_server_failure_during_writes",
        "the server reads 4 MB ahead, and the test sends no more",
    ),
    ("pgx", r"TestConnExecMultipleQueriesError", "`1/0` fails when it is evaluated, not when the statement is planned"),
    ("pgx", r"TestQueryContextErrorWhileReceivingRows", "rows before one that fails are not sent"),
    ("pgx", r"TestConnBeginBatchDeferredError", "rows of RETURNING are sent when their transaction has been committed"),
    ("pgx", r"TooManyParams", "65,536 parameters are refused by Parse already"),
    ("pgx", r"Midway", "COPY looks at rows when it has many of them, or all"),
    ("pgx", r"Notice|ConstraintErrors", "no plpgsql"),
    ("pgx", r"BigTime", "timestamps end in 294247"),
    ("pgx", r"XML", "no `xml`"),
    ("postgres.js", r"big query body", "50,000 parameters have 2 s, which were too few on a machine with other work"),
    ("lib/pq", r"TestQueryRowBugWorkaround", "rows before one that fails are not sent"),
    ("lib/pq", r"Trigger", "no triggers"),
    ("", r"arrays of several dimensions", "a column of `integer[]` holds arrays of one dimension"),
    ("", r"cannot alter type .* uses it", "`ALTER TYPE ... ATTRIBUTE` of a type that a column has is refused"),
)


def reason_for(suite: str, name: str, message: str) -> str | None:
    """Why the test of the suite fails; None when it is not known."""
    for of, pattern, why in _REASONS:
        if of in ("", suite) and re.search(pattern, f"{name}\n{message}"):
            return why
    return None
