"""The words in texts of dates and times: PostgreSQL's datetktbl (datetime.c), apart from time zones."""

from __future__ import annotations

from collections.abc import Iterator

_MONTHS = (
    "january jan/february feb/march mar/april apr/may/june jun/july jul/august aug/september sep sept/october oct/"
    "november nov/december dec"
)
_OTHER_WORDS = """
weekday 0: monday mon tuesday tue tues wednesday wed weds thursday thu thur thurs friday fri saturday sat sunday sun
year 0: y
month number 0: m
day 0: d
hour 0: h
minute 0: mm
second 0: s
julian 0: j jd julian
other unit 0: dow doy isodow isoyear
time 0: t
special 0: -infinity allballs epoch infinity now today tomorrow yesterday
meridiem 0: am
meridiem 12: pm
era 0: ad
era 1: bc
nothing 0: at on
summer 0: dst
"""


def _tokens() -> Iterator[tuple[str, tuple[str, int]]]:
    for number, words in enumerate(_MONTHS.split("/"), 1):
        yield from ((word, ("month", number)) for word in words.split())
    for line in _OTHER_WORDS.strip().splitlines():
        meaning, _, words = line.partition(":")
        what, _, value = meaning.rpartition(" ")
        yield from ((word, (what, int(value))) for word in words.split())


TOKENS = dict(_tokens())
"""PostgreSQL's datetktbl: what a word is, and its number."""
LONGEST_TOKEN = 10
