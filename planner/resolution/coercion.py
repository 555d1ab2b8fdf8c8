"""Type conversion rules on types alone: PostgreSQL's chapter 10.

Which casts exist in which context, which overload a call means, and what type several expressions have in common.
Nothing here looks at expressions; `planner.resolution.casting` applies casts to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from planner.catalog_data.content import casts
from planner.errors import DatatypeMismatch, UndefinedObject
from planner.types.base_types import cast_rule
from planner.types.ranges import multirange_of, range_of
from planner.types.signature import Signature
from planner.types.type_names import array_of, element_of, format_type, type_row
from planner.types.types import ANYARRAY, ANYELEMENT, INT2VECTOR, OIDVECTOR, RECORD, TEXT, UNKNOWN
from planner.types.user_types import is_user_type

ANY = 2276
ANYNONARRAY = 2776
ANYENUM = 3500
ANYCOMPATIBLE = 5077
ANYCOMPATIBLEARRAY = 5078
ANYCOMPATIBLENONARRAY = 5079
ANYRANGE = 3831
ANYMULTIRANGE = 4537
ANYCOMPATIBLERANGE = 5080
ANYCOMPATIBLEMULTIRANGE = 4538

_RANGES_1 = (ANYRANGE, ANYMULTIRANGE)
_RANGES_2 = (ANYCOMPATIBLERANGE, ANYCOMPATIBLEMULTIRANGE)
_FAMILY_1 = (ANYELEMENT, ANYARRAY, ANYNONARRAY, ANYENUM, *_RANGES_1)
_FAMILY_2 = (ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYCOMPATIBLENONARRAY, *_RANGES_2)
POLYMORPHIC = frozenset(_FAMILY_1 + _FAMILY_2)


def settled_by(oid: int) -> tuple[int, ...]:
    """The pseudo-types of arguments of which one says what a result of the pseudo-type `oid` is, in PostgreSQL's order.
    Several types of ranges may have one subtype, so that an element says nothing of them."""
    return next(family for family in (_RANGES_1, _RANGES_2, _FAMILY_1, _FAMILY_2) if oid in family)


class Context(IntEnum):
    """Where a cast may happen: in an expression, in an assignment to a column, or where it is written."""

    IMPLICIT = 0
    ASSIGNMENT = 1
    EXPLICIT = 2


_CONTEXTS = {"i": Context.IMPLICIT, "a": Context.ASSIGNMENT, "e": Context.EXPLICIT}


def category(oid: int) -> str:
    """pg_type.typcategory: N numeric, S string, D date/time, B boolean, A array, X unknown, ..."""
    row = type_row(oid)
    return row.category if row is not None else "X"


def is_preferred(oid: int) -> bool:
    """pg_type.typispreferred."""
    row = type_row(oid)
    return row is not None and row.ispreferred


def pathway(source: int, target: int, context: Context) -> str | None:
    """How a value of type `source` becomes one of `target` in `context`: "relabel" (same bits), "function", "io"
    (through text), "array" (element by element), or None when it may not (find_coercion_pathway)."""
    if is_user_type(source) or is_user_type(target):
        return _find_pathway(source, target, context)
    return _built_in_pathway(source, target, context)


@lru_cache(maxsize=4096)
def _built_in_pathway(source: int, target: int, context: Context) -> str | None:
    return _find_pathway(source, target, context)


def _find_pathway(source: int, target: int, context: Context) -> str | None:
    if source == target:
        return "relabel"
    cast = casts().get((source, target))
    if cast is not None:
        if context < _CONTEXTS[cast.context]:
            return None
        return {"b": "relabel", "f": "function", "i": "io"}[cast.method]
    rule = cast_rule(source, target)
    if rule is not None:
        return None if context < _CONTEXTS[rule.context] else "function" if rule.function else "relabel"
    made = range_of(source)
    if made is not None and made.multirange == target:
        # Of a range of a user; CREATE TYPE makes the cast.
        return "function" if context == Context.EXPLICIT else None
    if (source == RECORD and category(target) == "C") or (target == RECORD and category(source) == "C"):
        return "io"
    if target not in (OIDVECTOR, INT2VECTOR):
        target_element, source_element = element_of(target), element_of(source)
        if target_element and source_element:
            return "array" if pathway(source_element, target_element, context) else None
    if context >= Context.ASSIGNMENT and category(target) == "S":
        return "io"
    if context >= Context.EXPLICIT and category(source) == "S":
        return "io"
    return None


def can_coerce(source: int, target: int, context: Context) -> bool:
    """Whether a value of `source` may become one of `target`, where the target may be polymorphic (can_coerce_type)."""
    if source in (target, UNKNOWN) or target == ANY or target in POLYMORPHIC:
        return True
    return pathway(source, target, context) is not None


# ---------------------------------------------------------------- overloads


class Candidate(Struct, frozen=True):
    """An overload with the argument types that it would have in this call, in the order in which they are given
    (defaults left out, variadic expanded)."""

    signature: Signature
    args: tuple[int, ...]
    expanded: int = 0
    """How many arguments the variadic one stands for, 0 when it is not expanded."""
    places: tuple[int, ...] = ()
    """Where arguments are named: the parameter that each of them is for."""
    ambiguous: bool = False
    """Whether another overload has the same types, and nothing says which of them is meant."""


def candidates(
    signatures: Sequence[Signature],
    nargs: int,
    *,
    expand_variadic: bool = True,
    places: Callable[[Signature], tuple[int, ...] | None] | None = None,
) -> list[Candidate]:
    """The overloads of one schema that can take `nargs` arguments (PostgreSQL, FuncnameGetCandidates). A variadic
    overload is expanded where there are enough of them, unless the call says VARIADIC; of two with the same types the
    one that is not expanded wins. With `places`, which says what parameters the arguments are for and None where they
    do not fit, some are named."""
    found: dict[tuple[int, ...], Candidate] = {}
    for signature in signatures:
        candidate = _candidate(signature, nargs, expand_variadic, places)
        if candidate is None:
            continue
        other = found.get(candidate.args)
        if other is None or (other.expanded and not candidate.expanded):
            found[candidate.args] = candidate
        elif bool(other.expanded) == bool(candidate.expanded) and (
            candidate.expanded or places is not None or max(len(other.signature.args), len(signature.args)) > nargs
        ):
            found[candidate.args] = replace(other, ambiguous=True)
    return list(found.values())


def _candidate(
    signature: Signature,
    nargs: int,
    expand_variadic: bool,
    places: Callable[[Signature], tuple[int, ...] | None] | None,
) -> Candidate | None:
    args, count = signature.args, len(signature.args)
    if places is not None:
        taken = places(signature)
        return None if taken is None else Candidate(signature, tuple(args[place] for place in taken), places=taken)
    if signature.variadic and expand_variadic and nargs >= count:
        fixed, last = count - 1, args[-1]
        element = last if last == ANY else _variadic_element(last)
        return Candidate(signature, args[:fixed] + (element,) * (nargs - fixed), nargs - fixed)
    if count - signature.defaults <= nargs <= count:
        return Candidate(signature, args[:nargs])
    return None


def _variadic_element(oid: int) -> int:
    if oid == ANYARRAY:
        return ANYELEMENT
    if oid == ANYCOMPATIBLEARRAY:
        return ANYCOMPATIBLE
    return element_of(oid)


class Ambiguous(Exception):
    """More than one overload fits equally well."""


def choose(found: Sequence[Candidate], inputs: tuple[int, ...]) -> Candidate | None:
    """The overload that a call with arguments of types `inputs` means (func_get_detail from the exact match on).

    None when no overload fits. Raises `Ambiguous`.
    """
    best = _best(found, inputs)
    if best is not None and best.ambiguous:
        raise Ambiguous
    return best


def _best(found: Sequence[Candidate], inputs: tuple[int, ...]) -> Candidate | None:
    for candidate in found:
        if candidate.args == inputs:
            return candidate
    viable = [
        candidate
        for candidate in found
        if all(
            can_coerce(source, target, Context.IMPLICIT) for source, target in zip(inputs, candidate.args, strict=True)
        )
        and _consistent(candidate.args, inputs)
    ]
    if len(viable) <= 1:
        return viable[0] if viable else None
    best = _select_candidate(viable, inputs)
    if best is None:
        raise Ambiguous
    return best


def _consistent(declared: tuple[int, ...], actual: tuple[int, ...]) -> bool:
    """Whether the arguments agree on what the pseudo-types stand for (check_generic_type_consistency)."""
    if not any(oid in POLYMORPHIC for oid in declared):
        return True
    if ANYENUM in declared and all(
        given == UNKNOWN for wanted, given in zip(declared, actual, strict=True) if wanted in POLYMORPHIC
    ):
        return False
    element = array = 0
    ranges: set[int] = set()
    common: list[int] = []
    common_ranges: set[int] = set()
    nonarray = False
    for wanted, given in zip(declared, actual, strict=True):
        if wanted not in POLYMORPHIC or given == UNKNOWN:
            continue
        if wanted in (ANYELEMENT, ANYNONARRAY, ANYENUM):
            if (element and given != element) or (wanted == ANYNONARRAY and element_of(given)):
                return False
            if wanted == ANYENUM and category(given) != "E":
                return False
            element = given
        elif wanted == ANYARRAY:
            if (array and given != array) or not (element_of(given) or given == ANYARRAY):
                return False
            array = given
        elif wanted in _RANGES_1:
            found = range_of(given) if wanted == ANYRANGE else multirange_of(given)
            if found is None:
                return False
            ranges.add(found.oid)
        elif wanted in _RANGES_2:
            found = range_of(given) if wanted == ANYCOMPATIBLERANGE else multirange_of(given)
            if found is None:
                return False
            common_ranges.add(found.oid)
            common.append(found.subtype)
        elif wanted == ANYCOMPATIBLEARRAY:
            inner = element_of(given)
            if not inner:
                return False
            common.append(inner)
        else:
            nonarray = nonarray or wanted == ANYCOMPATIBLENONARRAY
            common.append(given)
    if array and array != ANYARRAY:
        if element and element_of(array) != element:
            return False
        element = element_of(array)
    if len(ranges) > 1 or any(element and _subtype(oid) != element for oid in ranges):
        return False
    if common:
        chosen = common_type(common)
        if chosen is None or (nonarray and element_of(chosen)):
            return False
        # The bounds of a range cannot be converted.
        if len(common_ranges) > 1 or any(_subtype(oid) != chosen for oid in common_ranges):
            return False
        return all(can_coerce(oid, chosen, Context.IMPLICIT) for oid in common)
    return True


def _subtype(range_oid: int) -> int:
    found = range_of(range_oid)
    return found.subtype if found is not None else 0


def _keep_best(found: list[Candidate], score: Callable[[Candidate], int]) -> list[Candidate]:
    scores = [score(candidate) for candidate in found]
    best = max(scores)
    return [candidate for candidate, value in zip(found, scores, strict=True) if value == best]


def _select_candidate(found: list[Candidate], inputs: tuple[int, ...]) -> Candidate | None:
    """func_select_candidate: run through the rules of chapter 10.3, step 4."""
    unknowns = [index for index, oid in enumerate(inputs) if oid == UNKNOWN]

    def exact(candidate: Candidate) -> int:
        return sum(oid == arg for oid, arg in zip(inputs, candidate.args, strict=True) if oid != UNKNOWN)

    found = _keep_best(found, exact)
    if len(found) == 1:
        return found[0]

    slots = [(index, category(oid)) for index, oid in enumerate(inputs) if oid != UNKNOWN]

    def preferred(candidate: Candidate) -> int:
        score = 0
        for index, input_category in slots:
            arg = candidate.args[index]
            if arg == inputs[index] or (category(arg) == input_category and is_preferred(arg)):
                score += 1
        return score

    found = _keep_best(found, preferred)
    if len(found) == 1:
        return found[0]
    if not unknowns:
        return None

    slot_categories: dict[int, tuple[str, bool]] = {}
    resolved = True
    for index in unknowns:
        chosen: str | None = None
        has_preferred = False
        conflict = False
        for candidate in found:
            arg = candidate.args[index]
            arg_category, arg_preferred = category(arg), is_preferred(arg)
            if chosen is None:
                chosen, has_preferred = arg_category, arg_preferred
            elif arg_category == chosen:
                has_preferred = has_preferred or arg_preferred
            elif arg_category == "S":
                chosen, has_preferred = arg_category, arg_preferred
            elif chosen != "S":
                conflict = True
        if conflict and chosen != "S":
            resolved = False
            break
        slot_categories[index] = (chosen or "X", has_preferred)
    if resolved:
        kept = []
        for candidate in found:
            for index, (wanted, has_preferred) in slot_categories.items():
                arg = candidate.args[index]
                if category(arg) != wanted or (has_preferred and not is_preferred(arg)):
                    break
            else:
                kept.append(candidate)
        if kept:
            found = kept
        if len(found) == 1:
            return found[0]

    known = {oid for oid in inputs if oid != UNKNOWN}
    if len(known) == 1:
        assumed = next(iter(known))
        fitting = [
            candidate
            for candidate in found
            if all(can_coerce(assumed, arg, Context.IMPLICIT) for arg in candidate.args)
            and _consistent(candidate.args, tuple(assumed for _ in candidate.args))
        ]
        if len(fitting) == 1:
            return fitting[0]
    return None


# ---------------------------------------------------------------- polymorphism


def resolve_polymorphic(
    signature: Signature, declared: tuple[int, ...], actual: tuple[int, ...]
) -> tuple[tuple[int, ...], int]:
    """Concrete argument types and result type of a polymorphic call (enforce_generic_type_consistency).

    Raises 42804 when the arguments disagree, with PostgreSQL's texts.
    """
    result = signature.result
    if not any(oid in POLYMORPHIC for oid in declared) and result not in POLYMORPHIC:
        return declared, result
    element = array = 0
    unknown_element = unknown_array = False
    range_oid, multirange = _range_family(declared, actual, _RANGES_1)
    for wanted, given in zip(declared, actual, strict=True):
        if wanted in (ANYELEMENT, ANYNONARRAY, ANYENUM):
            if given == UNKNOWN:
                unknown_element = True
                continue
            if element and given != element:
                raise DatatypeMismatch(
                    'arguments declared "anyelement" are not all alike',
                    detail=f"{format_type(element)} versus {format_type(given)}",
                )
            element = given
        elif wanted == ANYARRAY:
            if given == UNKNOWN:
                unknown_array = True
                continue
            if array and given != array:
                raise DatatypeMismatch(
                    'arguments declared "anyarray" are not all alike',
                    detail=f"{format_type(array)} versus {format_type(given)}",
                )
            array = given
        elif wanted in _RANGES_1 and given == UNKNOWN:
            unknown_element = True
    if range_oid:
        inner = _subtype(range_oid)
        if element and element != inner:
            name, oid = ("anyrange", range_oid) if range_oid in actual else ("anymultirange", multirange)
            raise DatatypeMismatch(
                f"argument declared {name} is not consistent with argument declared anyelement",
                detail=f"{format_type(oid)} versus {format_type(element)}",
            )
        element = inner
    if array:
        inner = element_of(array)
        if array == ANYARRAY:
            # pg_statistic's and pg_attribute's own anyarray columns: their elements have no static type.
            inner = element or TEXT
        if not inner:
            raise DatatypeMismatch(f"argument declared anyarray is not an array but type {format_type(array)}")
        if element and element != inner:
            raise DatatypeMismatch(
                "argument declared anyarray is not consistent with argument declared anyelement",
                detail=f"{format_type(array)} versus {format_type(element)}",
            )
        element = inner
    elif element:
        array = array_of(element)
    if not element and (unknown_element or unknown_array):
        raise DatatypeMismatch("could not determine polymorphic type because input has type unknown")
    common = _common_family(declared, actual)
    common_range, common_multirange = _range_family(declared, actual, _RANGES_2)
    concrete = {
        ANYELEMENT: element,
        ANYNONARRAY: element,
        ANYENUM: element,
        ANYARRAY: array,
        ANYRANGE: range_oid,
        ANYMULTIRANGE: multirange,
        ANYCOMPATIBLE: common,
        ANYCOMPATIBLENONARRAY: common,
        ANYCOMPATIBLEARRAY: array_of(common) if common else 0,
        ANYCOMPATIBLERANGE: common_range,
        ANYCOMPATIBLEMULTIRANGE: common_multirange,
    }
    for oid in (*declared, result):
        if oid in _RANGES_2 and not concrete[oid]:
            raise DatatypeMismatch(
                f"could not determine polymorphic type {format_type(oid)} because input has type unknown"
            )
    args = tuple(concrete.get(oid, oid) for oid in declared)
    final = concrete.get(result, result)
    if result in concrete and not final:
        what = element if result in _FAMILY_1 else common
        raise UndefinedObject(f"could not find array type for data type {format_type(what)}")
    for index, oid in enumerate(declared):
        if oid in concrete and not args[index]:
            what = element if oid in _FAMILY_1 else common
            raise UndefinedObject(f"could not find array type for data type {format_type(what)}")
    return args, final


def _range_family(declared: tuple[int, ...], actual: tuple[int, ...], family: tuple[int, int]) -> tuple[int, int]:
    """The range and the multirange type that the `family`'s two (anyrange and anymultirange) are; zeros where no
    argument says."""
    any_range, any_multirange = family
    range_oid = multirange = 0
    for wanted, given in zip(declared, actual, strict=True):
        if wanted not in family or given == UNKNOWN:
            continue
        name = format_type(wanted)
        found = range_of(given) if wanted == any_range else multirange_of(given)
        if found is None:
            what = "range" if wanted == any_range else "multirange"
            raise DatatypeMismatch(f"argument declared {name} is not a {what} type but type {format_type(given)}")
        before = range_oid if wanted == any_range else multirange
        if range_oid and found.oid != range_oid:
            if before:
                raise DatatypeMismatch(
                    f'arguments declared "{name}" are not all alike',
                    detail=f"{format_type(before)} versus {format_type(given)}",
                )
            raise DatatypeMismatch(
                f"argument declared {format_type(any_multirange)} is not consistent with argument declared"
                f" {format_type(any_range)}",
                detail=f"{format_type(given)} versus {format_type(range_oid)}",
            )
        range_oid, multirange = found.oid, found.multirange
    return range_oid, multirange


def _common_family(declared: tuple[int, ...], actual: tuple[int, ...]) -> int:
    inputs = []
    for wanted, given in zip(declared, actual, strict=True):
        if wanted in (ANYCOMPATIBLE, ANYCOMPATIBLENONARRAY):
            inputs.append(given)
        elif wanted == ANYCOMPATIBLEARRAY:
            if given == UNKNOWN:
                inputs.append(given)
                continue
            inner = element_of(given)
            if not inner:
                raise DatatypeMismatch(
                    f"argument declared anycompatiblearray is not an array but type {format_type(given)}"
                )
            inputs.append(inner)
        elif wanted in _RANGES_2 and given != UNKNOWN:
            found = range_of(given) if wanted == ANYCOMPATIBLERANGE else multirange_of(given)
            assert found is not None
            inputs.append(found.subtype)
    if not inputs:
        return 0
    common = common_type(inputs)
    if common is None:
        raise DatatypeMismatch("arguments of anycompatible family cannot be cast to a common type")
    return common


def concrete_signature(signature: Signature, args: tuple[int, ...], result: int) -> Signature:
    """`signature` with concrete types in place of its pseudo-types."""
    if signature.args == args and signature.result == result:
        return signature
    return replace(signature, args=args, result=result)


# ---------------------------------------------------------------- common types


def common_type(inputs: Sequence[int]) -> int | None:
    """The type that expressions of these types have in common (select_common_type), text when all are unknown; None
    when there is none (categories differ)."""
    first = inputs[0]
    if first != UNKNOWN and all(oid == first for oid in inputs):
        return first
    chosen = first
    chosen_category = category(chosen)
    for oid in inputs[1:]:
        if oid in (UNKNOWN, chosen):
            continue
        if chosen == UNKNOWN:
            chosen, chosen_category = oid, category(oid)
            continue
        if category(oid) != chosen_category:
            return None
        if (
            not is_preferred(chosen)
            and can_coerce(chosen, oid, Context.IMPLICIT)
            and not can_coerce(oid, chosen, Context.IMPLICIT)
        ):
            chosen, chosen_category = oid, category(oid)
    return TEXT if chosen == UNKNOWN else chosen


def mismatched(inputs: Sequence[int]) -> tuple[int, int, int]:
    """Which two types, and the index of the second, made `common_type` fail; for the message."""
    chosen = inputs[0]
    for index, oid in enumerate(inputs[1:], 1):
        if oid in (UNKNOWN, chosen):
            continue
        if chosen == UNKNOWN:
            chosen = oid
            continue
        if category(oid) != category(chosen):
            return chosen, oid, index
        if (
            not is_preferred(chosen)
            and can_coerce(chosen, oid, Context.IMPLICIT)
            and not can_coerce(oid, chosen, Context.IMPLICIT)
        ):
            chosen = oid
    return chosen, inputs[-1], len(inputs) - 1
