"""jsonpath: its syntax tree, read from text and printed as PostgreSQL does ("The SQL/JSON Path Language").

A value is held as the text that jsonpath_out prints, and read again (once for each text) where it is used. Raises 42601
where jsonpath_in does, and what is wrong with a regular expression (2201B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache

from msgspec import Struct

from planner.errors import FeatureNotSupported, InvalidTextRepresentation, SqlSyntaxError
from planner.values.json.json_text import quote_json
from planner.values.json.jsonpath_tokens import Scanner, Token

END = 1 << 32
"""What stands for `last` as a level of `**`."""

_COMPARISONS = {"==": "==", "!=": "!=", "<>": "!=", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_PRIORITIES = {
    "||": 0, "&&": 1, "==": 2, "!=": 2, "<": 2, ">": 2, "<=": 2, ">=": 2, "starts with": 2, "+": 3, "-": 3, "*": 4,
    "/": 4, "%": 4, "plus": 5, "minus": 5,
}  # fmt: skip
_PREDICATES = frozenset({"||", "&&", "!", "is unknown", "exists", "starts with", "like_regex", *_COMPARISONS.values()})
_METHODS = frozenset({"abs", "size", "type", "floor", "double", "ceiling", "keyvalue"})
_PRIMARIES = {"$": "$", "@": "@", "last": "last", "true": "true", "false": "false", "null": "null"}


class Item(Struct, frozen=True):
    """A step or an operation. `kind` is an operator, `$`, `@`, `last`, `null`, `true`, `false`, `string`, `number`,
    `variable`, `key`, `.*`, `[*]`, `[]`, `**`, `?`, `datetime` or the name of a method; `plus` and `minus` are signs.

    `args` are its operands (of `[]` by pairs, the second None for a single index), `value` its constant, `next` the
    steps that follow it.
    """

    kind: str
    args: tuple[Item | None, ...] = ()
    value: object = None
    next: tuple[Item, ...] = ()
    levels: tuple[int, int] = (0, END)
    """Of `**`: from where to where."""

    @property
    def is_predicate(self) -> bool:
        """Whether it is true, false or unknown, and can be asked for in a filter."""
        return self.kind in _PREDICATES and not self.next


class Path(Struct, frozen=True):
    """A whole jsonpath."""

    root: Item
    lax: bool = True


@lru_cache(maxsize=1024)
def parse_jsonpath(text: str) -> Path:
    """jsonpath_in."""
    if not text.strip(" \t\n\r\f"):
        raise InvalidTextRepresentation(f'invalid input syntax for type jsonpath: "{text}"')
    return _Parser(text).path()


def show_jsonpath(path: Path) -> str:
    """jsonpath_out."""
    return ("" if path.lax else "strict ") + _show(path.root, in_key=False, brackets=True)


def pattern_flags(item: Item) -> str:
    """The options of PostgreSQL's regular expressions for a `like_regex`, whose flags are XQuery's: a dot matches a
    newline only with `s`, ^ and $ match at lines only with `m`."""
    flags = str(item.value)
    kept = "i" if "i" in flags else ""
    if "q" in flags:
        return kept + "q"
    return kept + {(False, False): "p", (False, True): "n", (True, True): "w"}.get(("s" in flags, "m" in flags), "")


class _Parser:
    """Reads a path by recursive descent; `token` is the next one."""

    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)
        self._token: Token = self._scanner.next()
        self._in_filter = 0
        self._in_subscript = 0

    def path(self) -> Path:
        lax = True
        if self._token.kind in ("strict", "lax"):
            lax = self._token.kind == "lax"
            self._advance()
        root = self._or()
        if self._token.kind != "end":
            raise self._wrong()
        return Path(root, lax)

    # ------------------------------------------------------------ tokens

    def _advance(self) -> Token:
        token, self._token = self._token, self._scanner.next()
        return token

    def _accept(self, *kinds: str) -> Token | None:
        return self._advance() if self._token.kind in kinds else None

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            raise self._wrong()
        return self._advance()

    def _wrong(self) -> SqlSyntaxError:
        return self._scanner.error("syntax error", self._token)

    # ------------------------------------------------------------ operators, the loosest first

    def _or(self) -> Item:
        return self._chain(self._and, "||")

    def _and(self) -> Item:
        return self._chain(self._comparison, "&&")

    def _chain(self, operand: Callable[[], Item], symbol: str) -> Item:
        left = operand()
        while self._token.kind == symbol:
            if not left.is_predicate:
                raise self._wrong()
            self._advance()
            right = operand()
            if not right.is_predicate:
                raise self._wrong()
            left = Item(symbol, (left, right))
        return left

    def _comparison(self) -> Item:
        if self._accept("!"):
            if self._token.kind not in ("(", "exists"):
                raise self._wrong()
            inner = self._accessors()
            if not inner.is_predicate:
                raise self._wrong()
            return Item("!", (inner,))
        left = self._sum()
        kind = self._token.kind
        if left.is_predicate:
            return left
        if kind in _COMPARISONS:
            self._advance()
            right = self._sum()
            if right.is_predicate:
                raise self._wrong()
            return Item(_COMPARISONS[kind], (left, right))
        if kind == "starts":
            self._advance()
            self._expect("with")
            if self._token.kind not in ("string", "variable"):
                raise self._wrong()
            return Item("starts with", (left, Item(self._token.kind, value=self._advance().text)))
        if kind == "like_regex":
            self._advance()
            pattern = self._expect("string").text
            flags = self._expect("string").text if self._accept("flag") else ""
            return _like_regex(left, pattern, flags)
        return left

    def _sum(self) -> Item:
        return self._arithmetic(self._product, "+", "-")

    def _product(self) -> Item:
        return self._arithmetic(self._signed, "*", "/", "%")

    def _arithmetic(self, operand: Callable[[], Item], *symbols: str) -> Item:
        left = operand()
        while self._token.kind in symbols and not left.is_predicate:
            symbol = self._advance().kind
            right = operand()
            if right.is_predicate:
                raise self._wrong()
            left = Item(symbol, (left, right))
        return left

    def _signed(self) -> Item:
        sign = self._accept("+", "-")
        if sign is None:
            return self._accessors()
        operand = self._signed()
        if operand.is_predicate:
            raise self._wrong()
        if operand.kind == "number" and not operand.next:
            assert isinstance(operand.value, Decimal)
            return operand if sign.kind == "+" else Item("number", value=_negated(operand.value))
        return Item("plus" if sign.kind == "+" else "minus", (operand,))

    # ------------------------------------------------------------ steps

    def _accessors(self) -> Item:
        is_exists = self._token.kind == "exists"
        first = self._primary()
        if is_exists:
            return first
        steps: list[Item] = []
        while (step := self._accessor()) is not None:
            steps.append(step)
        return Item(first.kind, first.args, first.value, (*first.next, *steps)) if steps else first

    def _primary(self) -> Item:
        token = self._token
        if token.kind == "(":
            self._advance()
            inner = self._or()
            self._expect(")")
            if inner.is_predicate and self._accept("is"):
                self._expect("unknown")
                return Item("is unknown", (inner,))
            return inner
        if token.kind == "exists":
            self._advance()
            self._expect("(")
            inner = self._sum()
            if inner.is_predicate:
                raise self._wrong()
            self._expect(")")
            return Item("exists", (inner,))
        if token.kind in ("string", "variable"):
            return Item(token.kind, value=self._advance().text)
        if token.kind == "number":
            return Item("number", value=Decimal(self._advance().text))
        if token.kind == "@" and not self._in_filter:
            self._advance()
            raise SqlSyntaxError("@ is not allowed in root expressions")
        if token.kind == "last" and not self._in_subscript:
            self._advance()
            raise SqlSyntaxError("LAST is allowed only in array subscripts")
        if token.kind in _PRIMARIES:
            self._advance()
            return Item(_PRIMARIES[token.kind])
        raise self._wrong()

    def _accessor(self) -> Item | None:
        if self._token.kind == ".":
            self._advance()
            return self._member()
        if self._token.kind == "[":
            self._advance()
            return self._subscripts()
        if self._token.kind == "?":
            self._advance()
            self._expect("(")
            self._in_filter += 1
            condition = self._or()
            self._in_filter -= 1
            if not condition.is_predicate:
                raise self._wrong()
            self._expect(")")
            return Item("?", (condition,))
        return None

    def _member(self) -> Item:
        if self._accept("*"):
            return Item(".*")
        if self._accept("**"):
            return self._levels()
        token = self._token
        if not token.is_key:
            raise self._wrong()
        self._advance()
        if token.kind != "string" and self._token.kind == "(" and (token.kind in _METHODS or token.kind == "datetime"):
            self._advance()
            template = None
            if token.kind == "datetime" and self._token.kind == "string":
                template = self._advance().text
            self._expect(")")
            return Item(token.kind, value=template)
        return Item("key", value=token.text)

    def _levels(self) -> Item:
        if not self._accept("{"):
            return Item("**")
        first = last = self._level()
        if self._accept("to"):
            last = self._level()
        self._expect("}")
        return Item("**", levels=(first, last))

    def _level(self) -> int:
        if self._accept("last"):
            return END
        if self._token.kind == "number" and self._token.text.isdigit():
            return int(self._advance().text)
        raise self._wrong()

    def _subscripts(self) -> Item:
        if self._token.kind == "*":
            self._advance()
            self._expect("]")
            return Item("[*]")
        self._in_subscript += 1
        bounds: list[Item | None] = []
        while True:
            for place in range(2):
                if place and not self._accept("to"):
                    bounds.append(None)
                    break
                bound = self._sum()
                if bound.is_predicate:
                    raise self._wrong()
                bounds.append(bound)
            if not self._accept(","):
                break
        self._in_subscript -= 1
        self._expect("]")
        return Item("[]", tuple(bounds))


def _negated(value: Decimal) -> Decimal:
    return value.copy_negate() if value else value


def _like_regex(left: Item, pattern: str, flags: str) -> Item:
    for flag in flags:
        if flag not in "ismxq":
            raise SqlSyntaxError(
                "invalid input syntax for type jsonpath",
                detail=f'Unrecognized flag character "{flag}" in LIKE_REGEX predicate.',
            )
    if "x" in flags and "q" not in flags:
        raise FeatureNotSupported('XQuery "x" flag (expanded regular expressions) is not implemented')
    kept = "".join(flag for flag in "ismxq" if flag in flags)
    return Item("like_regex", (left, Item("string", value=pattern)), kept)


# ------------------------------------------------------------ output


def _priority(item: Item) -> int:
    return _PRIORITIES.get(item.kind, 6)


def _operand(item: Item | None, of: Item) -> str:
    assert item is not None
    return _show(item, in_key=False, brackets=_priority(item) <= _priority(of))


def _plain(item: Item | None) -> str:
    assert item is not None
    return _show(item, in_key=False, brackets=False)


def _show(item: Item, *, in_key: bool, brackets: bool) -> str:
    made = _show_step(item, in_key=in_key, brackets=brackets)
    return made + "".join(_show_step(step, in_key=True, brackets=True) for step in item.next)


def _show_step(item: Item, *, in_key: bool, brackets: bool) -> str:
    kind, args = item.kind, item.args
    dot = "." if in_key else ""
    if kind in ("$", "@", "last", "null", "true", "false"):
        return kind
    if kind == "string":
        return quote_json(str(item.value))
    if kind == "variable":
        return "$" + quote_json(str(item.value))
    if kind == "number":
        text = format(item.value, "f")
        return f"({text})" if item.next else text
    if kind == "key":
        return dot + quote_json(str(item.value))
    if kind == ".*":
        return dot + "*"
    if kind == "[*]":
        return "[*]"
    if kind == "[]":
        return f"[{','.join(_show_bounds(args))}]"
    if kind == "**":
        return dot + _show_levels(item)
    if kind == "?":
        return f"?({_plain(args[0])})"
    if kind == "!":
        return f"!({_plain(args[0])})"
    if kind == "is unknown":
        return f"({_plain(args[0])}) is unknown"
    if kind == "exists":
        return f"exists ({_plain(args[0])})"
    if kind == "datetime":
        return f".datetime({'' if item.value is None else quote_json(str(item.value))})"
    if kind in _METHODS:
        return f".{kind}()"
    if kind in ("plus", "minus"):
        made = ("+" if kind == "plus" else "-") + _operand(args[0], item)
    elif kind == "like_regex":
        pattern = args[1]
        assert pattern is not None
        made = f"{_operand(args[0], item)} like_regex {quote_json(str(pattern.value))}"
        made += f' flag "{item.value}"' if item.value else ""
    else:
        made = f"{_operand(args[0], item)} {kind} {_operand(args[1], item)}"
    return f"({made})" if brackets else made


def _show_bounds(bounds: Sequence[Item | None]) -> list[str]:
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return [_plain(first) + ("" if last is None else f" to {_plain(last)}") for first, last in pairs]


def _show_levels(item: Item) -> str:
    first, last = item.levels
    if (first, last) == (0, END):
        return "**"
    names = ["last" if level == END else str(level) for level in (first, last)]
    return f"**{{{names[0]}}}" if first == last else f"**{{{names[0]} to {names[1]}}}"
