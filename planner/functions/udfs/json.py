"""json and jsonb. Navigation keeps the text of what it returns, which for json is the text as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from planner.errors import ArraySubscriptError, InvalidParameterValue, InvalidTextRepresentation, NullValueNotAllowed
from planner.functions.udfs.table import Udf
from planner.values.json.json_text import check_json, normalize_jsonb, quote_json

_DECODER = json.JSONDecoder(parse_float=Decimal)
_SPACE = " \t\n\r"


def _skip(text: str, index: int) -> int:
    while index < len(text) and text[index] in _SPACE:
        index += 1
    return index


def _value_end(text: str, index: int) -> int:
    return int(_DECODER.raw_decode(text, index)[1])


def members(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values (as text) of an object."""
    index = _skip(text, _skip(text, 0) + 1)
    while index < len(text) and text[index] != "}":
        key, index = json.decoder.scanstring(text, index + 1)  # type: ignore[attr-defined]
        index = _skip(text, _skip(text, index) + 1)
        end = _value_end(text, index)
        yield key, text[index:end]
        index = _skip(text, end)
        if index < len(text) and text[index] == ",":
            index = _skip(text, index + 1)


def elements(text: str) -> Iterator[str]:
    """Elements (as text) of an array."""
    index = _skip(text, _skip(text, 0) + 1)
    while index < len(text) and text[index] != "]":
        end = _value_end(text, index)
        yield text[index:end]
        index = _skip(text, end)
        if index < len(text) and text[index] == ",":
            index = _skip(text, index + 1)


def kind(text: str) -> str:
    """json_typeof()."""
    first = text.lstrip(_SPACE)[:1]
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        first, "number"
    )


def _as(text: str | None, form: str) -> str | None:
    if text is None or form != "text":
        return text
    found = kind(text)
    if found == "null":
        return None
    return str(json.loads(text)) if found == "string" else text.strip(_SPACE)


def get(text: str, key: str, form: str) -> str | None:
    """-> and ->> with a key."""
    if kind(text) != "object":
        return None
    found = None
    for name, value in members(text):
        if name == key:
            found = value
    return _as(found, form)


def get_index(text: str, index: int, form: str) -> str | None:
    """-> and ->> of json with a position; negative ones count from the end."""
    if kind(text) != "array":
        return None
    items = list(elements(text))
    if not -len(items) <= index < len(items):
        return None
    return _as(items[index], form)


def get_index_jsonb(text: str, index: int, form: str) -> str | None:
    """-> and ->> of jsonb with a position. A scalar is an array of one element there (jsonb_array_element)."""
    if kind(text) not in ("array", "object"):
        return _as(text, form) if index in (0, -1) else None
    return get_index(text, index, form)


def path(text: str, steps: list[str | None], form: str) -> str | None:
    """#> and #>>."""
    current: str | None = text
    for step in steps:
        if current is None or step is None:
            return None
        current = _step(current, step)
    return _as(current, form)


def _step(text: str, step: str) -> str | None:
    if kind(text) == "object":
        return get(text, step, "json")
    if kind(text) == "array":
        try:
            return get_index(text, int(step), "json")
        except ValueError:
            return None
    return None


def array_length(text: str) -> int:
    """json_array_length()."""
    found = kind(text)
    if found == "object":
        raise InvalidParameterValue("cannot get array length of a non-array")
    if found != "array":
        raise InvalidParameterValue("cannot get array length of a scalar")
    return sum(1 for _ in elements(text))


def array_elements(text: str, form: str, name: str) -> list[str | None]:
    """json_array_elements() and its _text form, of json and of jsonb; `name` is the function's."""
    found = kind(text)
    if found != "array" and name.startswith("json_"):
        raise InvalidParameterValue(f"cannot call {name} on a {'non-array' if found == 'object' else 'scalar'}")
    if found == "object":
        raise InvalidParameterValue("cannot extract elements from an object")
    if found != "array":
        raise InvalidParameterValue("cannot extract elements from a scalar")
    return [_as(item, form) for item in elements(text)]


def object_keys(text: str, name: str) -> list[str]:
    """json_object_keys() and jsonb_object_keys(), which is the `name`."""
    found = kind(text)
    if found == "array":
        raise InvalidParameterValue(f"cannot call {name} on an array")
    if found != "object":
        raise InvalidParameterValue(f"cannot call {name} on a scalar")
    return [key for key, _ in members(text)]


def each(text: str, name: str) -> list[dict[str, str | None]]:
    """json_each() and its kin, by their name."""
    form = "text" if name.endswith("_text") else "json"
    if kind(text) != "object":
        if name.startswith("jsonb"):
            raise InvalidParameterValue(f"cannot call {name} on a non-object")
        raise InvalidParameterValue(
            f"cannot deconstruct {'an array as an object' if kind(text) == 'array' else 'a scalar'}"
        )
    return [{"key": key, "value": _as(value, form)} for key, value in members(text)]


def strip_nulls(text: str, form: str) -> str:
    """json_strip_nulls(): without the object members that are null."""
    found = kind(text)
    if found == "object":
        kept = [(key, strip_nulls(value, form)) for key, value in members(text) if kind(value) != "null"]
        joiner, colon = (", ", ": ") if form == "jsonb" else (",", ":")
        return "{" + joiner.join(f"{quote_json(key)}{colon}{value}" for key, value in kept) + "}"
    if found == "array":
        return "[" + (", " if form == "jsonb" else ",").join(strip_nulls(item, form) for item in elements(text)) + "]"
    return text.strip(_SPACE)


def jsonb_in(text: str) -> str:
    """jsonb input."""
    return normalize_jsonb(text)


def json_in(text: str) -> str:
    """json input."""
    return check_json(text)


def json_key(text: str | None, place: int) -> str:
    """A key of json_build_object(), its argument `place`."""
    if text is None:
        raise InvalidParameterValue(f"argument {place} cannot be null", hint="Object keys should be text.")
    return quote_json(text)


def jsonb_key(text: str | None, place: int) -> str:
    """A key of jsonb_build_object(), its argument `place`."""
    if text is None:
        raise InvalidParameterValue(f"argument {place}: key must not be null")
    return quote_json(text)


def array_of(text: str) -> str:
    """json_build_array() of the elements of an array, given as JSON."""
    return f"[{', '.join(elements(text))}]"


def object_of(texts: list[str | None], values: str, kind: str) -> str:
    """json_build_object() of the elements of an array, given as their texts and as JSON: keys and values by turns."""
    if len(texts) % 2:
        raise InvalidParameterValue(
            "argument list must have even number of elements",
            hint=f"The arguments of {kind}_build_object() must consist of alternating keys and values.",
        )
    shown = list(elements(values))
    key = jsonb_key if kind == "jsonb" else json_key
    pairs = [f"{key(texts[at], at + 1)} : {shown[at + 1]}" for at in range(0, len(texts), 2)]
    return f"{{{', '.join(pairs)}}}"


def scalar(text: str, wanted: str, type: str) -> str:
    """A jsonb scalar of the kind `wanted` that is cast to `type`."""
    found = kind(text)
    if found == wanted:
        return text
    names = {"object": "jsonb object", "array": "jsonb array", "string": "jsonb string", "null": "jsonb null",
             "boolean": "jsonb boolean", "number": "jsonb numeric"}  # fmt: skip
    raise InvalidParameterValue(f"cannot cast {names[found]} to type {type}")


def pretty(text: str) -> str:
    """jsonb_pretty()."""
    return _pretty(text, 0)


def _pretty(text: str, depth: int) -> str:
    pad = " " * (4 * (depth + 1))
    found = kind(text)
    if found == "object":
        items = [f"{pad}{quote_json(key)}: {_pretty(value, depth + 1)}" for key, value in members(text)]
        return "{\n" + ",\n".join(items) + ("\n" if items else "") + " " * (4 * depth) + "}"
    if found == "array":
        items = [pad + _pretty(item, depth + 1) for item in elements(text)]
        return "[\n" + ",\n".join(items) + ("\n" if items else "") + " " * (4 * depth) + "]"
    return text


def concat(left: str, right: str) -> str:
    """jsonb || jsonb."""
    if kind(left) == kind(right) == "object":
        merged = {**dict(members(left)), **dict(members(right))}
        return normalize_jsonb("{" + ",".join(f"{quote_json(key)}:{value}" for key, value in merged.items()) + "}")
    sides = [list(elements(side)) if kind(side) == "array" else [side] for side in (left, right)]
    return "[" + ", ".join(sides[0] + sides[1]) + "]"


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{quote_json(key)}: {value}" for key, value in pairs) + "}"


def delete(text: str, key: str) -> str:
    """jsonb - text."""
    return delete_keys(text, [key])


def delete_keys(text: str, keys: list[str | None]) -> str:
    """jsonb - text[]."""
    found = kind(text)
    if found == "object":
        return _object([(name, value) for name, value in members(text) if name not in keys])
    if found == "array":
        gone = {quote_json(key) for key in keys if key is not None}
        return "[" + ", ".join(item for item in elements(text) if item not in gone) + "]"
    raise InvalidParameterValue("cannot delete from scalar")


def delete_index(text: str, index: int) -> str:
    """jsonb - integer."""
    found = kind(text)
    if found == "object":
        raise InvalidParameterValue("cannot delete from object using integer index")
    if found != "array":
        raise InvalidParameterValue("cannot delete from scalar")
    items = list(elements(text))
    if -len(items) <= index < len(items):
        del items[index]
    return "[" + ", ".join(items) + "]"


def delete_path(text: str, steps: list[str | None]) -> str:
    """jsonb #- text[]. Nothing is looked up in an empty object or array."""
    if text == "[]":
        return text
    return _changed(text, steps, None, create=False, insert=False, after=False)


def set_path(text: str, steps: list[str | None], value: str, create: bool) -> str:
    """jsonb_set()."""
    return _changed(text, steps, value, create=create, insert=False, after=False)


_TREATMENTS = ("delete_key", "return_target", "use_json_null", "raise_exception")


def set_path_lax(
    text: str | None, steps: list[str | None] | None, value: str | None, create: bool | None, treatment: str | None
) -> str | None:
    """jsonb_set_lax(): jsonb_set() that is told what a NULL value means. Raises 22023, 22004."""
    if text is None or steps is None or create is None:
        return None
    if treatment is not None and value is not None:
        return set_path(text, steps, value, create)
    if treatment not in _TREATMENTS:
        listed = ", ".join(f'"{each}"' for each in _TREATMENTS[:-1])
        raise InvalidParameterValue(f'null_value_treatment must be {listed}, or "{_TREATMENTS[-1]}"')
    match treatment:
        case "raise_exception":
            raise NullValueNotAllowed(
                "JSON value must not be null",
                detail='Exception was raised because null_value_treatment is "raise_exception".',
                hint="To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not "
                "passed.",
            )
        case "use_json_null":
            return set_path(text, steps, "null", create)
        case "delete_key":
            return delete_path(text, steps)
        case _:
            return text


def insert_path(text: str, steps: list[str | None], value: str, after: bool) -> str:
    """jsonb_insert()."""
    return _changed(text, steps, value, create=True, insert=True, after=after)


def _changed(
    text: str, steps: list[str | None], value: str | None, *, create: bool, insert: bool, after: bool, position: int = 1
) -> str:
    """`text` with what the path leads to replaced, inserted or (`value` None) deleted; `position` is the number of the
    path's first step."""
    if kind(text) not in ("object", "array"):
        raise InvalidParameterValue(f"cannot {'delete path in' if value is None else 'set path in'} scalar")

    def changed_below(inner: str) -> str:
        return _changed(inner, rest, value, create=create, insert=insert, after=after, position=position + 1)

    if not steps:
        return text
    step, rest = steps[0], steps[1:]
    if step is None:
        raise NullValueNotAllowed(f"path element at position {position} is null")
    if kind(text) == "object":
        pairs = list(members(text))
        keys = [key for key, _ in pairs]
        if step in keys:
            place = keys.index(step)
            if rest:
                if kind(pairs[place][1]) in ("object", "array"):
                    pairs[place] = (step, changed_below(pairs[place][1]))
            elif value is None:
                del pairs[place]
            elif insert:
                raise InvalidParameterValue(
                    "cannot replace existing key", hint="Try using the function jsonb_set to replace key value."
                )
            else:
                pairs[place] = (step, value)
        elif not rest and value is not None and create:
            pairs.append((step, value))
        return normalize_jsonb(_object(pairs))
    items = list(elements(text))
    try:
        index = int(step)
    except ValueError:
        raise InvalidTextRepresentation(f'path element at position {position} is not an integer: "{step}"') from None
    place = index + len(items) if index < 0 else index
    if 0 <= place < len(items):
        if rest:
            if kind(items[place]) in ("object", "array"):
                items[place] = changed_below(items[place])
        elif value is None:
            del items[place]
        elif insert:
            items.insert(place + (1 if after else 0), value)
        else:
            items[place] = value
    elif not rest and value is not None and create:
        items.insert(len(items) if index >= 0 else 0, value)
    return "[" + ", ".join(items) + "]"


def assign(text: str, steps: list[str | None], value: str) -> str:
    """What jsonb ``text[step][step]... = value`` makes of `text`: what the path leads to is made where it is missing,
    arrays are filled with nulls up to it (PostgreSQL's jsonb_set_element). Raises 22004, 22023, 22P02."""
    path = [step for step in steps if step is not None]
    if len(path) < len(steps):
        raise NullValueNotAllowed("jsonb subscript in assignment must not be null")
    return normalize_jsonb(_assigned(text, path, value, 0))


def _assigned(text: str, path: list[str], value: str, level: int) -> str:
    """`text`, that `path[:level]` leads to, with what the rest of the path leads to replaced by `value`."""
    if level == len(path):
        return value
    step = path[level]
    if kind(text) == "object":
        pairs = dict(members(text))
        pairs[step] = (
            _assigned(pairs[step], path, value, level + 1) if step in pairs else _path(path[level + 1 :], value)
        )
        return _object(list(pairs.items()))
    if kind(text) != "array":
        raise InvalidParameterValue(
            "cannot replace existing key",
            detail="The path assumes key is a composite object, but it is a scalar value.",
        )
    items = list(elements(text))
    index = _array_index(step)
    if index is None:
        raise InvalidTextRepresentation(f'path element at position {level + 1} is not an integer: "{step}"')
    if index < -len(items):
        raise InvalidParameterValue(f"path element at position {level + 1} is out of range: {index}")
    if index < 0:
        index += len(items)
    if index < len(items):
        items[index] = _assigned(items[index], path, value, level + 1)
    else:
        items += ["null"] * (index - len(items)) + [_path(path[level + 1 :], value)]
    return "[" + ", ".join(items) + "]"


def _path(steps: list[str], value: str) -> str:
    """The objects and, for steps that are numbers, arrays in which `steps` lead to `value`."""
    for step in reversed(steps):
        index = _array_index(step)
        value = _object([(step, value)]) if index is None else "[" + "null, " * index + value + "]"
    return value


def _array_index(step: str) -> int | None:
    """A step as strtoint() reads it; None for what is no number of 32 bits."""
    if re.fullmatch(r"[ \t\n\v\f\r]*[+-]?[0-9]+", step) is None:
        return None
    index = int(step)
    return index if -(2**31) <= index < 2**31 else None


def contains(left: str, right: str) -> bool:
    """jsonb @> jsonb."""
    return _contains(_DECODER.decode(left), _DECODER.decode(right), top=True)


def _contains(left: Any, right: Any, top: bool = False) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return all(key in left and _contains(left[key], value) for key, value in right.items())
    if isinstance(left, list) and isinstance(right, list):
        return all(any(_contains(mine, item) for mine in left) for item in right)
    if top and isinstance(left, list) and not isinstance(right, (dict, list)):
        return any(_same(item, right) for item in left)
    return _same(left, right)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right) and isinstance(left, (dict, list)) == isinstance(right, (dict, list))


def exists(text: str, keys: list[str | None], mode: str) -> bool:
    """jsonb ? text, ?| and ?&."""
    found = kind(text)
    if found == "object":
        present = {key for key, _ in members(text)}
    elif found == "array":
        present = {str(json.loads(item)) for item in elements(text) if kind(item) == "string"}
    else:
        present = {str(json.loads(text))} if found == "string" else set()
    wanted = [key for key in keys if key is not None]
    return any(key in present for key in wanted) if mode == "any" else all(key in present for key in wanted)


def object_from_pair(keys: list[str | None], values: list[str | None]) -> str:
    """json_object(text[], text[])."""
    if bool(keys) != bool(values):
        raise ArraySubscriptError(_WRONG_SUBSCRIPTS)
    if len(keys) != len(values):
        raise ArraySubscriptError("mismatched array dimensions")
    return object_from_array([item for pair in zip(keys, values, strict=True) for item in pair])


_WRONG_SUBSCRIPTS = "wrong number of array subscripts"


def object_from_dimensions(items: list[str | None], dims: list[int]) -> str:
    """json_object(text[]) of an array that is no ordinary list, with its dimensions (`planner.ir.array_value`)."""
    if dims[0] > 2:
        raise ArraySubscriptError(_WRONG_SUBSCRIPTS)
    if dims[0] == 2 and dims[2] != 2:
        raise ArraySubscriptError("array must have two columns")
    return object_from_array(items)


def object_from_array(items: list[str | None]) -> str:
    """json_object(text[])."""
    if len(items) % 2:
        raise ArraySubscriptError("array must have even number of elements")
    pairs: list[str] = []
    for index in range(0, len(items), 2):
        key, value = items[index], items[index + 1]
        if key is None:
            raise NullValueNotAllowed("null value not allowed for object key")
        pairs.append(f"{quote_json(key)} : {'null' if value is None else quote_json(value)}")
    return "{" + ", ".join(pairs) + "}"


_RANKS = {"null": b"\x01", "string": b"\x02", "number": b"\x03", "boolean": b"\x04"}
_ARRAY, _OBJECT = b"\x05", b"\x06"


def key(text: str) -> bytes:
    """Bytes that sort as PostgreSQL sorts jsonb. A scalar at the top counts as an array of one element, before those
    that are arrays; so an empty array comes first of all."""
    found = kind(text)
    if found == "object":
        return _key(text)
    if found == "array":
        items = list(elements(text))
        return _ARRAY + len(items).to_bytes(4) + b"\x01" + b"".join(map(_key, items))
    return _ARRAY + (1).to_bytes(4) + b"\x00" + _key(text)


def _key(text: str) -> bytes:
    found = kind(text)
    if found == "array":
        items = list(elements(text))
        return _ARRAY + len(items).to_bytes(4) + b"".join(map(_key, items))
    if found == "object":
        pairs = list(members(text))
        return _OBJECT + len(pairs).to_bytes(4) + b"".join(name.encode() + b"\0" + _key(value) for name, value in pairs)
    value = _DECODER.decode(text)
    if found == "string":
        return _RANKS[found] + str(value).encode() + b"\0"
    if found == "number":
        return _RANKS[found] + _number_key(Decimal(value))
    return _RANKS[found] + (b"\x01" if value else b"\x00")


def _number_key(value: Decimal) -> bytes:
    if not value:
        return b"\x02"
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    magnitude = len(digits) + exponent + (1 << 31)
    size = magnitude.to_bytes(4) + "".join(map(str, digits)).rstrip("0").encode() + b"\0"
    return b"\x01" + bytes(255 - byte for byte in size) if sign else b"\x03" + size


_T, _I, _L = "VARCHAR", "INTEGER", "VARCHAR[]"

UDFS: Mapping[str, Udf] = {
    "tg_json_get": Udf((_T, _T, _T), _T, get),
    "tg_json_get_index": Udf((_T, _I, _T), _T, get_index),
    "tg_jsonb_get_index": Udf((_T, _I, _T), _T, get_index_jsonb),
    "tg_json_path": Udf((_T, _L, _T), _T, path),
    "tg_json_typeof": Udf((_T,), _T, kind),
    "tg_json_array_length": Udf((_T,), _I, array_length),
    "tg_json_elements": Udf((_T, _T, _T), _L, array_elements),
    "tg_json_keys": Udf((_T, _T), _L, object_keys),
    "tg_json_each": Udf((_T, _T), 'STRUCT("key" VARCHAR, "value" VARCHAR)[]', each),
    "tg_json_strip_nulls": Udf((_T, _T), _T, strip_nulls),
    "tg_json_string": Udf((_T,), _T, quote_json),
    "tg_json_array_of": Udf((_T,), _T, array_of),
    "tg_json_object_of": Udf((_L, _T, _T), _T, object_of),
    "tg_json_member": Udf((_T, _I), _T, json_key, nulls=True),
    "tg_jsonb_member": Udf((_T, _I), _T, jsonb_key, nulls=True),
    "tg_json_object": Udf((_L,), _T, object_from_array),
    "tg_json_object_pair": Udf((_L, _L), _T, object_from_pair),
    "tg_json_in": Udf((_T,), _T, json_in),
    "tg_jsonb_in": Udf((_T,), _T, jsonb_in),
    "tg_jsonb_scalar": Udf((_T, _T, _T), _T, scalar),
    "tg_jsonb_pretty": Udf((_T,), _T, pretty),
    "tg_jsonb_concat": Udf((_T, _T), _T, concat),
    "tg_jsonb_delete": Udf((_T, _T), _T, delete),
    "tg_jsonb_delete_index": Udf((_T, _I), _T, delete_index),
    "tg_jsonb_delete_keys": Udf((_T, _L), _T, delete_keys),
    "tg_jsonb_delete_path": Udf((_T, _L), _T, delete_path),
    "tg_jsonb_contains": Udf((_T, _T), "BOOLEAN", contains),
    "tg_jsonb_exists": Udf((_T, _L, _T), "BOOLEAN", exists),
    "tg_jsonb_assign": Udf((_T, _L, _T), _T, assign),
    "tg_jsonb_set": Udf((_T, _L, _T, "BOOLEAN"), _T, set_path),
    "tg_jsonb_set_lax": Udf((_T, _L, _T, "BOOLEAN", _T), _T, set_path_lax, nulls=True),
    "tg_jsonb_insert": Udf((_T, _L, _T, "BOOLEAN"), _T, insert_path),
    "tg_jsonb_key": Udf((_T,), "BLOB", key),
    "tg_json_object_dims": Udf((_L, "INTEGER[]"), _T, object_from_dimensions),
}
