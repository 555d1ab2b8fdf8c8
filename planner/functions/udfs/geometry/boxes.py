"""Boxes: how they lie to each other, to points, segments and lines. Source: box_... of PostgreSQL's geo_ops.c."""

from __future__ import annotations

from collections.abc import Iterator

from planner.functions.udfs.geometry import segments
from planner.functions.udfs.geometry.segments import Nearest
from planner.values.geometry import numbers as n
from planner.values.geometry.shapes import Box, Line, Lseg, Point, box_of


def width(box: Box) -> float:
    """box_width."""
    return n.sub(box.high.x, box.low.x)


def height(box: Box) -> float:
    """box_height."""
    return n.sub(box.high.y, box.low.y)


def area(box: Box) -> float:
    """box_area."""
    return n.mul(width(box), height(box))


def center(box: Box) -> Point:
    """box_center."""
    return segments.middle(box.high, box.low)


def between_boxes(one: Box, other: Box) -> float:
    """box_distance: of their centers."""
    return segments.distance(center(one), center(other))


def overlap(one: Box, other: Box) -> bool:
    """box_overlap."""
    return (
        n.le(one.low.x, other.high.x)
        and n.le(other.low.x, one.high.x)
        and n.le(one.low.y, other.high.y)
        and n.le(other.low.y, one.high.y)
    )


def holds_box(outer: Box, inner: Box) -> bool:
    """box_contain."""
    return (
        n.ge(outer.high.x, inner.high.x)
        and n.le(outer.low.x, inner.low.x)
        and n.ge(outer.high.y, inner.high.y)
        and n.le(outer.low.y, inner.low.y)
    )


def holds_point(box: Box, point: Point) -> bool:
    """box_contain_pt, which lets nothing pass."""
    return box.low.x <= point.x <= box.high.x and box.low.y <= point.y <= box.high.y


def holds_segment(box: Box, segment: Lseg) -> bool:
    """on_sb."""
    return all(holds_point(box, end) for end in segment)


def intersection(one: Box, other: Box) -> Box | None:
    """box_intersect."""
    if not overlap(one, other):
        return None
    return Box(
        Point(n.smaller(one.high.x, other.high.x), n.smaller(one.high.y, other.high.y)),
        Point(n.greater(one.low.x, other.low.x), n.greater(one.low.y, other.low.y)),
    )


def around(one: Box, other: Box) -> Box:
    """boxes_bound_box."""
    return Box(
        Point(n.greater(one.high.x, other.high.x), n.greater(one.high.y, other.high.y)),
        Point(n.smaller(one.low.x, other.low.x), n.smaller(one.low.y, other.low.y)),
    )


def times(box: Box, by: Point) -> Box:
    """box_mul."""
    return box_of(segments.times(box.high, by), segments.times(box.low, by))


def over(box: Box, by: Point) -> Box:
    """box_div."""
    return box_of(segments.over(box.high, by), segments.over(box.low, by))


def sides(box: Box) -> Iterator[Lseg]:
    """The left, upper, lower and right side, each from a corner that the box is known by."""
    upper_left, lower_right = Point(box.low.x, box.high.y), Point(box.high.x, box.low.y)
    yield Lseg(box.low, upper_left)
    yield Lseg(box.high, upper_left)
    yield Lseg(box.low, lower_right)
    yield Lseg(box.high, lower_right)


def meets_line(line: Line, box: Box) -> bool:
    """inter_lb."""
    return any(segments.meeting_line(side, line) is not None for side in sides(box))


def meets_segment(box: Box, segment: Lseg) -> bool:
    """inter_sb."""
    if not overlap(box_of(*segment), box):
        return False
    if any(holds_point(box, end) for end in segment):
        return True
    return any(segments.segments_meet(side, segment) for side in sides(box))


def nearest(box: Box, point: Point) -> Nearest:
    """The point of a box that is nearest to a point."""
    if holds_point(box, point):
        return point, 0.0
    return _best(segments.nearest_of_segment(side, point) for side in sides(box))


def nearest_to_segment(box: Box, segment: Lseg) -> Nearest:
    """The point of a box that is nearest to a segment; of one that meets it, that of the segment nearest to the box's
    center."""
    if meets_segment(box, segment):
        return segments.nearest_of_segment(segment, center(box))[0], 0.0
    return _best(segments.nearest_between(side, segment) for side in sides(box))


def _best(candidates: Iterator[Nearest]) -> Nearest:
    best = next(candidates)
    for candidate in candidates:
        if n.less(candidate[1], best[1]):
            best = candidate
    return best
