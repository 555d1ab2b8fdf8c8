"""What pgcli shows: `session.py URL` prints what it answers to lines that are typed, and what it completes."""

import os
import pathlib
import re
import sys
import threading

HOME = pathlib.Path("home").absolute()
os.environ |= {"HOME": str(HOME), "XDG_CONFIG_HOME": str(HOME), "PGTZ": "UTC"}

from pgcli.main import OutputSettings, PGCli, format_output  # noqa: E402
from prompt_toolkit.completion import CompleteEvent  # noqa: E402
from prompt_toolkit.document import Document  # noqa: E402

SAID = [
    "CREATE TYPE mood AS ENUM ('sad', 'fine');",
    "CREATE SCHEMA side;",
    "CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, fee numeric(8,2), at timestamptz, "
    "mood mood DEFAULT 'fine');",
    "CREATE TABLE side.notes (person int REFERENCES people, note text);",
    "CREATE VIEW rich AS SELECT * FROM people WHERE fee > 10;",
    "CREATE FUNCTION doubled(x int) RETURNS int LANGUAGE sql AS 'SELECT 2 * x';",
    "INSERT INTO people VALUES (1, 'it''s Ann', 12.5, '2024-02-29 12:00+00'), (2, 'Bob', NULL, NULL);",
    "SELECT * FROM people ORDER BY id;",
    "\\dt",
    "\\dt side.*",
    "\\dv",
    "\\d people",
    "\\d side.notes",
    "\\d rich",
    "\\di",
    "\\ds",
    "\\dn side",
    "\\dT mood",
    "\\df doubled",
    "\\sf doubled",
    "\\du none",
    "\\dx none",
    "\\db none",
    "\\dp people",
    "SELECT nothing FROM people;",
    "INSERT INTO people VALUES (1, 'again');",
    "BEGIN;",
    "DELETE FROM people WHERE id = 2;",
    "ROLLBACK;",
    "SELECT count(*) FROM people; SELECT 'a second one' AS more;",
    "\\x",
    "SELECT id, fee FROM people WHERE id = 1;",
    "\\x",
    "\\ns few SELECT name FROM people WHERE id < 3 ORDER BY 1",
    "\\n few",
    "\\nd few",
    "SELECT ARRAY[1,2] AS a, '{\"a\": 1}'::jsonb AS j, '\\x00ff'::bytea AS b, "
    "interval '1 day 2 hours' AS i, int4range(1, 5) AS r;",
]
TYPED = [
    "SELECT * FROM peo",
    "SELECT * FROM side.",
    "SELECT na FROM people",
    "SELECT p. FROM people p",
    "SELECT doub",
    "SELECT * FROM side.notes n JOIN ",
    "SELECT * FROM people p JOIN side.notes n ON ",
    "SELECT 1::moo",
    "INSERT INTO people (",
    "SET sea",
]
PLACES = {
    "SELECT na FROM people": 9,
    "SELECT p. FROM people p": 9,
}
WORDS = "people notes rich doubled mood side name fee id at person note n p ON search_path to"
OURS = frozenset(re.findall(r"\w+", WORDS))
"""Of what the session has made; catalogs have other names too."""


def answers(tool):
    """To what is said."""
    plain = {"table_format": "ascii", "dcmlfmt": "", "floatfmt": ""}
    for line in SAID:
        print(">", line)
        for title, rows, headers, status, _, success, special in tool.pgexecute.run(
            line, tool.pgspecial, lambda error: f"{type(error).__name__}: {error}", on_error_resume=True
        ):
            settings = OutputSettings(**plain, expanded=tool.pgspecial.expanded_output)
            shown = list(rows) if rows is not None and not isinstance(rows, list) else rows
            for part in format_output(
                title, shown, headers, re.sub(r"\x1b\[[0-9;]*m", "", str(status or "")), settings
            ):
                print(part)
            print(success, special)


def completions(tool):
    """Of what is typed."""
    done = threading.Event()
    made = []
    tool.completion_refresher.refresh(
        tool.pgexecute, tool.pgspecial, lambda completer: (made.append(completer), done.set()), settings=tool.settings
    )
    if not done.wait(60):
        raise TimeoutError("it has read no names")
    for text in TYPED:
        place = PLACES.get(text, len(text))
        found = made[0].get_completions(Document(text, place), CompleteEvent())
        print(text, "|", [one.text for one in found if set(re.findall(r"\w+", one.text)) <= OURS])


def main():
    """Both, in one session."""
    HOME.mkdir()
    tool = PGCli(never_passwd_prompt=True)
    tool.connect_uri(sys.argv[1])
    answers(tool)
    completions(tool)


main()
