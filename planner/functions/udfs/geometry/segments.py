"""Points, lines and line segments: where they meet, what is nearest, how far it is.

The formulas and their order are those of PostgreSQL's geo_ops.c, so that results are equal to the last bit. A nearest
point comes with its distance; a distance of NaN says that there is none.
"""

from __future__ import annotations

import math

from planner.values.geometry import numbers as n
from planner.values.geometry.shapes import Line, Lseg, Point, line_through, same_point, slope

Nearest = tuple[Point, float]
"""A point of the one shape that is nearest to the other, and how far apart they are."""


def distance(first: Point, second: Point) -> float:
    """point_distance."""
    return n.hypot(n.sub(first.x, second.x), n.sub(first.y, second.y))


def inverse_slope(first: Point, second: Point) -> float:
    """The slope of what is perpendicular to the line through both."""
    if n.eq(first.x, second.x):
        return 0.0
    if n.eq(first.y, second.y):
        return n.INFINITY
    return n.div(n.sub(first.x, second.x), n.sub(second.y, first.y))


def moved(point: Point, by: Point) -> Point:
    """point_add."""
    return Point(n.add(point.x, by.x), n.add(point.y, by.y))


def moved_back(point: Point, by: Point) -> Point:
    """point_sub."""
    return Point(n.sub(point.x, by.x), n.sub(point.y, by.y))


def times(point: Point, by: Point) -> Point:
    """point_mul: the product of complex numbers."""
    return Point(
        n.sub(n.mul(point.x, by.x), n.mul(point.y, by.y)),
        n.add(n.mul(point.x, by.y), n.mul(point.y, by.x)),
    )


def over(point: Point, by: Point) -> Point:
    """point_div: the quotient of complex numbers. Raises 22012."""
    square = n.add(n.mul(by.x, by.x), n.mul(by.y, by.y))
    return Point(
        n.div(n.add(n.mul(point.x, by.x), n.mul(point.y, by.y)), square),
        n.div(n.sub(n.mul(point.y, by.x), n.mul(point.x, by.y)), square),
    )


def middle(first: Point, second: Point) -> Point:
    """The point halfway between both."""
    return Point(n.div(n.add(first.x, second.x), 2.0), n.div(n.add(first.y, second.y), 2.0))


# ---------------------------------------------------------------- lines


def line_slope(line: Line) -> float:
    """The slope of a line; infinity for a vertical one."""
    if n.is_zero(line.a):
        return 0.0
    return n.INFINITY if n.is_zero(line.b) else n.div(line.a, -line.b)


def line_inverse_slope(line: Line) -> float:
    """The slope of what is perpendicular to a line."""
    if n.is_zero(line.a):
        return n.INFINITY
    return 0.0 if n.is_zero(line.b) else n.div(line.b, line.a)


def crossing(one: Line, other: Line) -> Point | None:
    """line_interpt: where two lines meet; None for parallel ones."""
    if n.is_zero(one.b):
        one, other = other, one
        if n.is_zero(one.b):
            return None
    if n.eq(other.a, n.mul(one.a, n.div(other.b, one.b))):
        return None
    x = n.div(
        n.sub(n.mul(one.b, other.c), n.mul(other.b, one.c)),
        n.sub(n.mul(one.a, other.b), n.mul(other.a, one.b)),
    )
    y = n.div(-n.add(n.mul(one.a, x), one.c), one.b)
    # No negative zeros.
    return Point(x if x != 0.0 else 0.0, y if y != 0.0 else 0.0)


def lines_meet(one: Line, other: Line) -> bool:
    """line_intersect."""
    return crossing(one, other) is not None


def are_parallel(one: Line, other: Line) -> bool:
    """line_parallel."""
    return crossing(one, other) is None


def are_perpendicular(one: Line, other: Line) -> bool:
    """line_perp."""
    if n.is_zero(one.a):
        return n.is_zero(other.b)
    if n.is_zero(other.a):
        return n.is_zero(one.b)
    if n.is_zero(one.b):
        return n.is_zero(other.a)
    if n.is_zero(other.b):
        return n.is_zero(one.a)
    return n.eq(n.div(n.mul(one.a, other.a), n.mul(one.b, other.b)), -1.0)


def same_line(one: Line, other: Line) -> bool:
    """line_eq: whether the coefficients are in proportion."""
    if any(map(math.isnan, (*one, *other))):
        return all(map(n.same, one, other))
    pairs = ((one.a, other.a), (one.b, other.b), (one.c, other.c))
    ratio = next((n.div(mine, its) for mine, its in pairs if not n.is_zero(its)), 1.0)
    return all(n.eq(mine, n.mul(ratio, its)) for mine, its in pairs)


def between_lines(one: Line, other: Line) -> float:
    """line_distance."""
    if lines_meet(one, other):
        return 0.0
    ratio = 1.0
    for mine, its in ((one.a, other.a), (one.b, other.b)):
        if not n.is_zero(mine) and not math.isnan(mine) and not n.is_zero(its) and not math.isnan(its):
            ratio = n.div(mine, its)
            break
    return n.div(abs(n.sub(one.c, n.mul(ratio, other.c))), n.hypot(one.a, one.b))


def line_holds(line: Line, point: Point) -> bool:
    """on_pl."""
    return n.is_zero(n.add(n.add(n.mul(line.a, point.x), n.mul(line.b, point.y)), line.c))


def nearest_of_line(line: Line, point: Point) -> Nearest:
    """The point of a line that is nearest to a point."""
    found = crossing(line_through(point, line_inverse_slope(line)), line)
    return (point, math.nan) if found is None else (found, distance(found, point))


# ---------------------------------------------------------------- segments


def segment_slope(segment: Lseg) -> float:
    """The slope of a segment."""
    return slope(*segment)


def length(segment: Lseg) -> float:
    """lseg_length."""
    return distance(*segment)


def line_of(segment: Lseg) -> Line:
    """The line that a segment is part of."""
    return line_through(segment.start, slope(*segment))


def segment_holds(segment: Lseg, point: Point) -> bool:
    """on_ps: whether the ways to both ends are no detour."""
    return n.eq(distance(point, segment.start) + distance(point, segment.end), length(segment))


def meeting_line(segment: Lseg, line: Line) -> Point | None:
    """Where a segment meets a line; one of its ends where that is near."""
    found = crossing(line_of(segment), line)
    if found is None or not segment_holds(segment, found):
        return None
    return next((end for end in segment if same_point(end, found)), found)


def meeting(one: Lseg, other: Lseg) -> Point | None:
    """lseg_interpt: where two segments meet."""
    found = meeting_line(one, line_of(other))
    return found if found is not None and segment_holds(other, found) else None


def segments_meet(one: Lseg, other: Lseg) -> bool:
    """lseg_intersect."""
    return meeting(one, other) is not None


def nearest_of_segment_to_line(segment: Lseg, line: Line) -> Nearest:
    """The point of a segment that is nearest to a line."""
    met = meeting_line(segment, line)
    if met is not None:
        return met, 0.0
    start, end = nearest_of_line(line, segment.start)[1], nearest_of_line(line, segment.end)[1]
    return (segment.start, start) if start < end else (segment.end, end)


def nearest_of_segment(segment: Lseg, point: Point) -> Nearest:
    """The point of a segment that is nearest to a point."""
    found, _ = nearest_of_segment_to_line(segment, line_through(point, inverse_slope(*segment)))
    return found, distance(found, point)


def nearest_between(one: Lseg, other: Lseg) -> Nearest:
    """The point of the segment `one` that is nearest to `other`."""
    met = meeting(one, other)
    if met is not None:
        return met, 0.0
    best = nearest_of_segment(one, other.start)
    candidates = (
        nearest_of_segment(one, other.end),
        *((end, nearest_of_segment(other, end)[1]) for end in one),
    )
    for candidate in candidates:
        if n.less(candidate[1], best[1]):
            best = candidate
    return best


def nearest_point_of_segment(point: Point, segment: Lseg) -> Point | None:
    """close_ps."""
    return existing(nearest_of_segment(segment, point))


def nearest_point_of_line(point: Point, line: Line) -> Point | None:
    """close_pl."""
    return existing(nearest_of_line(line, point))


def nearest_point_of_second(one: Lseg, other: Lseg) -> Point | None:
    """close_lseg; None for parallel ones."""
    if slope(*one) == slope(*other):
        return None
    return existing(nearest_between(other, one))


def nearest_point_to_line(line: Line, segment: Lseg) -> Point | None:
    """close_ls; None for parallel ones."""
    if slope(*segment) == line_slope(line):
        return None
    return existing(nearest_of_segment_to_line(segment, line))


def existing(found: Nearest) -> Point | None:
    """The point, None where there is none."""
    return None if math.isnan(found[1]) else found[0]
