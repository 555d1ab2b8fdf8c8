"""Rows for the 21 tables, from a seed: the same for the same number of movies.

What the real data has and uniform data has not, because it is what misleads estimates: few people, companies and
keywords have most of the rows (Zipf's law); a company's country goes with its movies' languages, countries and release
dates; kind, year, genre, votes, rating and keywords of a movie go together; large movies have more of everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
SEED = 20

KINDS = ("movie", "tv series", "tv movie", "video movie", "tv mini series", "video game", "episode")
COMPANY_TYPES = ("distributors", "production companies", "special effects companies", "miscellaneous companies")
CAST_TYPES = ("cast", "crew", "complete", "complete+verified")
LINKS = (
    "follows", "followed by", "remake of", "remade as", "references", "referenced in", "spoofs", "spoofed in",
    "features", "featured in", "spin off from", "spin off", "version of", "similar to", "edited into", "edited from",
    "alternate language version of", "unknown link",
)  # fmt: skip
ROLES = (
    "actor", "actress", "producer", "writer", "cinematographer", "composer", "costume designer", "director", "editor",
    "miscellaneous crew", "production designer", "guest",
)  # fmt: skip
NAMED_INFO = (
    "runtimes", "color info", "genres", "languages", "certificates", "sound mix", "tech info", "countries", "taglines",
    "keywords", "release dates", "budget", "gross", "trivia", "mini biography", "birth notes", "height", "birth date",
    "votes", "rating", "top 250 rank", "bottom 10 rank",
)  # fmt: skip
INFO_TYPES = NAMED_INFO + tuple(f"info {number}" for number in range(len(NAMED_INFO) + 1, 114))
INFO = {name: number for number, name in enumerate(INFO_TYPES, 1)}
GENRES = ("Drama", "Comedy", "Documentary", "Horror", "Thriller", "Action", "Romance", "Crime", "Sci-Fi", "Western")
COUNTRIES = (
    ("[us]", "USA", "English"), ("[de]", "Germany", "German"), ("[gb]", "UK", "English"), ("[fr]", "France", "French"),
    ("[se]", "Sweden", "Swedish"), ("[jp]", "Japan", "Japanese"), ("[pl]", "Poland", "Polish"),
    ("[dk]", "Denmark", "Danish"), ("[nl]", "Netherlands", "Dutch"), ("[no]", "Norway", "Norwegian"),
)  # fmt: skip
KEYWORDS = (
    "character-name-in-title", "sequel", "murder", "blood", "violence", "based-on-novel", "superhero", "revenge",
    "marvel-cinematic-universe", "number-in-title", "computer-animation", "hero", "gore", "magnet", "web", "nerd",
    "second-part", "10,000-mile-club", "female-nudity", "martial-arts", "fight", "kung-fu-master", "bomb", "ghost",
)  # fmt: skip
BY_GENRE = {
    "Horror": ("murder", "blood", "gore", "violence", "ghost"),
    "Action": ("superhero", "marvel-cinematic-universe", "sequel", "hero", "violence", "fight", "bomb"),
    "Sci-Fi": ("superhero", "sequel", "computer-animation", "hero", "second-part"),
    "Thriller": ("murder", "revenge", "based-on-novel", "blood"),
}
FIRST = (
    "Ann",
    "Bert",
    "Tim",
    "Yolanda",
    "Xavier",
    "Zoe",
    "Robert",
    "Angela",
    "Bob",
    "Downey",
    "Kate",
    "Ingrid",
    "Olof",
)
LAST = ("Adams", "Brown", "Downey", "Miller", "Bergman", "Tanaka", "Kowalski", "Van Dam", "Zimmer", "Yilmaz", "Anders")
TITLES = (
    "Champion",
    "Money",
    "Dragon",
    "Kung Fu",
    "Saw",
    "Vampire",
    "Freddy",
    "Iron",
    "Shadow",
    "Love",
    "War",
    "Birdemic",
)


class Zipf:
    """Numbers from 1 to `size`, the k-th as often as 1/k."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self._chance = chance
        self._values = range(1, size + 1)
        self._weights = list(accumulate(1 / value for value in self._values))

    def __call__(self, count: int) -> list[int]:
        """`count` of them."""
        return self._chance.choices(self._values, cum_weights=self._weights, k=count)


def _code(name: str) -> str:
    return name[:1].upper() + str(sum(map(ord, name)) % 1000)


def _small() -> Iterator[tuple[str, list[Row]]]:
    for table, values in (
        ("kind_type", KINDS), ("company_type", COMPANY_TYPES), ("comp_cast_type", CAST_TYPES),
        ("info_type", INFO_TYPES), ("link_type", LINKS), ("role_type", ROLES),
    ):  # fmt: skip
        yield table, [(number, value) for number, value in enumerate(values, 1)]


def tables(movies: int) -> Iterator[tuple[str, Sequence[Row]]]:
    """Each table's name and rows."""
    chance = random.Random(SEED)
    yield from _small()
    people, companies, characters, keywords = movies * 2, max(40, movies // 10), movies, max(60, movies // 8)

    words = [*KEYWORDS, *(f"keyword-{number}" for number in range(len(KEYWORDS) + 1, keywords + 1))]
    yield "keyword", [(number, word, _code(word)) for number, word in enumerate(words, 1)]
    keyword_ids = {word: number for number, word in enumerate(words, 1)}

    rows: list[Row] = []
    country_of = [0]
    for number in range(1, companies + 1):
        country = min(int(chance.expovariate(0.6)), len(COUNTRIES) - 1)
        country_of.append(country)
        kind = chance.choice(("Film", "Warner", "Pictures", "Studios", "Television", "Lionsgate", "Polygram"))
        name = f"{chance.choice(LAST)} {kind} {number}"
        rows.append((number, name, COUNTRIES[country][0] if number % 19 else None, None, _code(name), None, None))
    yield "company_name", rows

    rows, genders = [], [""]
    for number in range(1, people + 1):
        gender = chance.choices(("m", "f", None), (60, 32, 8))[0]
        genders.append(gender or "")
        name = f"{chance.choice(LAST)}, {chance.choice(FIRST)} {number if number % 3 else ''}".strip()
        rows.append((number, name, None, None, gender, _code(name), _code(name[::-1]), _code(name[:3]), None))
    yield "name", rows
    yield (
        "char_name",
        [
            (
                number,
                f"{'Queen' if number % 50 == 7 else chance.choice(FIRST)} {number % 97}",
                None,
                None,
                None,
                None,
                None,
            )
            for number in range(1, characters + 1)
        ],
    )
    aka = Zipf(chance, people)(movies)
    yield (
        "aka_name",
        [
            (number, person, f"{chance.choice(FIRST)} {chance.choice('abcdefg')}{person}", None, None, None, None, None)
            for number, person in enumerate(aka, 1)
        ],
    )
    yield from _of_movies(chance, movies, people, companies, characters, country_of, genders, keyword_ids)
    info: list[Row] = []
    for person in Zipf(chance, people)(movies):
        what = chance.choice(("mini biography", "birth notes", "height", "birth date", "trivia"))
        note = "Volker Boehm" if what == "mini biography" and chance.random() < 0.3 else None
        info.append((len(info) + 1, person, INFO[what], f"{what} of {person}", note))
    yield "person_info", info


def _of_movies(
    chance: random.Random,
    movies: int,
    people: int,
    companies: int,
    characters: int,
    country_of: list[int],
    genders: list[str],
    keyword_ids: dict[str, int],
) -> Iterator[tuple[str, Sequence[Row]]]:
    made: dict[str, list[Row]] = {
        table: []
        for table in (
            "title", "aka_title", "cast_info", "complete_cast", "movie_companies", "movie_info", "movie_info_idx",
            "movie_keyword", "movie_link",
        )
    }  # fmt: skip

    def add(table: str, *values: Any) -> None:
        made[table].append((len(made[table]) + 1, *values))

    person_of, company_of, keyword_of, movie_of, role_of = (
        Zipf(chance, size) for size in (people, companies, len(keyword_ids), movies, characters)
    )
    for movie in range(1, movies + 1):
        kind = chance.choices(range(1, 8), (30, 5, 8, 10, 2, 3, 42))[0]
        year = (2015 - int(chance.expovariate(0.06))) if chance.random() < 0.95 else None
        genre = chance.choices(GENRES, (30, 25, 15, 6, 6, 5, 5, 4, 2, 2))[0]
        # Some are large: they have more of everything.
        size = min(12, int(chance.paretovariate(1.1))) if kind == 1 else 1
        name = f"{chance.choice(TITLES)} {chance.choice(TITLES)} {movie if movie % 4 else ''}".strip()
        episode = (
            (chance.randint(1, movies), chance.randint(1, 9), chance.randint(1, 300)) if kind == 7 else (None,) * 3
        )
        years = f"{year}-{year + 3}" if kind == 2 and year else None
        add("title", name, None, kind, year, None, _code(name), *episode, years, None)
        if chance.random() < 0.2:
            add("aka_title", movie, f"aka {name}", None, kind, year, None, *episode, None, None)
        country = 0
        for company in company_of(min(size, 4) + (chance.random() < 0.4)):
            country = country_of[company]
            what = chance.choices((1, 2, 3, 4), (50, 40, 3, 7))[0]
            _, where, _ = COUNTRIES[country]
            note = None
            if what == 1:
                medium = chance.choice(("theatrical", "TV", "DVD", "VHS", "Blu-ray"))
                note = f"({year or 2000 + movie % 9}) ({where if chance.random() < 0.8 else 'worldwide'}) ({medium})"
            elif what == 2 and chance.random() < 0.4:
                note = chance.choice(("(co-production)", "(presents)", "(as Metro-Goldwyn-Mayer Pictures)"))
            add("movie_companies", movie, company, what, note)
        _, where, language = COUNTRIES[country]
        for info, value in (("genres", genre), ("countries", where), ("languages", language)):
            add("movie_info", movie, INFO[info], value, None)
        months = ("January", "March", "June", "November")
        for place in sorted({where, "USA"}) if size > 2 else [where]:
            note = "(internet)" if chance.random() < 0.1 else None
            add("movie_info", movie, INFO["release dates"], f"{place}:{chance.choice(months)} {year or 2001}", note)
        if size > 1:
            add("movie_info", movie, INFO["budget"], f"${size * 1000000}", None)
            add("movie_info", movie, INFO["trivia"], f"trivia {movie}", None)
        if size > 1 or chance.random() < 0.3:
            rating = chance.triangular(1, 10, 7 if genre in ("Drama", "Documentary") else 5)
            add("movie_info_idx", movie, INFO["votes"], str(int(size**3 * chance.expovariate(0.02)) + 5), None)
            add("movie_info_idx", movie, INFO["rating"], f"{rating:.1f}", None)
            if rating > 8.5 and size > 2:
                add("movie_info_idx", movie, INFO["top 250 rank"], str(chance.randint(1, 250)), None)
            elif rating < 2:
                add("movie_info_idx", movie, INFO["bottom 10 rank"], str(chance.randint(1, 10)), None)
        own = {keyword_ids[word] for word in BY_GENRE.get(genre, ()) if chance.random() < 0.12 * size + 0.1}
        for keyword in sorted(own.union(keyword_of(size))):
            add("movie_keyword", movie, keyword)
        for person in person_of(3 + 2 * size):
            female = genders[person] == "f"
            role = chance.choices(range(1, 13), (0, 40, *[6] * 10) if female else (40, 0, *[6] * 10))[0]
            note = None
            if role <= 2 and (chance.random() < 0.2 or where == "Japan"):
                note = chance.choice(
                    ("(voice)", "(voice: English version)", "(voice: Japanese version)", "(uncredited)")
                )
            elif role == 4:
                note = chance.choice(("(writer)", "(head writer)", "(story)", "(screenplay)", None))
            elif role == 3:
                note = chance.choice(("(producer)", "(executive producer)", None))
            add("cast_info", person, movie, role_of(1)[0] if role <= 2 else None, note, None, role)
        if size > 1 and chance.random() < 0.5:
            add("complete_cast", movie, chance.choice((1, 2)), chance.choice((3, 4)))
        if size > 2 or chance.random() < 0.02:
            for other in movie_of(2):
                add("movie_link", movie, other, chance.choices(range(1, 19), (8, 8, *[1] * 16))[0])
    yield from made.items()
