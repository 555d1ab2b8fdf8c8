"""Circles. Source: circle_... of PostgreSQL's geo_ops.c."""

from __future__ import annotations

import math

from planner.errors import FeatureNotSupported, InvalidParameterValue, ProgramLimitExceeded
from planner.functions.udfs.geometry import paths, segments
from planner.values.geometry import numbers as n
from planner.values.geometry.shapes import Box, Circle, Point, Polygon, same_point


def area(circle: Circle) -> float:
    """circle_area."""
    return n.mul(n.mul(circle.radius, circle.radius), math.pi)


def same(one: Circle, other: Circle) -> bool:
    """circle_same."""
    both_nan = math.isnan(one.radius) and math.isnan(other.radius)
    return (both_nan or n.eq(one.radius, other.radius)) and same_point(one.center, other.center)


def overlap(one: Circle, other: Circle) -> bool:
    """circle_overlap."""
    return n.le(segments.distance(one.center, other.center), n.add(one.radius, other.radius))


def holds(outer: Circle, inner: Circle) -> bool:
    """circle_contain."""
    return n.le(segments.distance(outer.center, inner.center), n.sub(outer.radius, inner.radius))


def holds_point(circle: Circle, point: Point) -> bool:
    """circle_contain_pt, which lets nothing pass."""
    return segments.distance(circle.center, point) <= circle.radius


def bounds(circle: Circle) -> tuple[float, float, float, float]:
    """Left, right, lower and upper end."""
    (x, y), radius = circle
    return n.sub(x, radius), n.add(x, radius), n.sub(y, radius), n.add(y, radius)


def between(one: Circle, other: Circle) -> float:
    """circle_distance."""
    return _at_least_0(n.sub(segments.distance(one.center, other.center), n.add(one.radius, other.radius)))


def to_point(circle: Circle, point: Point) -> float:
    """dist_cpoint."""
    return _at_least_0(n.sub(segments.distance(point, circle.center), circle.radius))


def to_polygon(circle: Circle, polygon: Polygon) -> float:
    """dist_cpoly."""
    return _at_least_0(n.sub(paths.polygon_to_point(polygon, circle.center), circle.radius))


def _at_least_0(number: float) -> float:
    return 0.0 if number < 0.0 else number


def times(circle: Circle, by: Point) -> Circle:
    """circle_mul_pt."""
    return Circle(segments.times(circle.center, by), n.mul(circle.radius, n.hypot(by.x, by.y)))


def over(circle: Circle, by: Point) -> Circle:
    """circle_div_pt."""
    return Circle(segments.over(circle.center, by), n.div(circle.radius, n.hypot(by.x, by.y)))


def box_within(circle: Circle) -> Box:
    """circle_box: the square whose corners are on the circle."""
    by = n.div(circle.radius, math.sqrt(2.0))
    (x, y), _ = circle
    return Box(Point(n.add(x, by), n.add(y, by)), Point(n.sub(x, by), n.sub(y, by)))


MAX_POINTS = 1 << 20
"""Of a polygon made of a circle, whose text has 43 MB then and takes 12 s (PostgreSQL makes up to 67 million)."""


def around_box(box: Box) -> Circle:
    """box_circle."""
    center = segments.middle(box.high, box.low)
    return Circle(center, segments.distance(center, box.high))


def as_polygon(count: int, circle: Circle) -> Polygon:
    """polygon(int, circle): that many points of the circle. Raises 0A000 for a radius of zero, 22023, 54000."""
    if n.is_zero(circle.radius):
        raise FeatureNotSupported("cannot convert circle with radius zero to polygon")
    if count < 2:
        raise InvalidParameterValue("must request at least 2 points")
    if count > MAX_POINTS:
        raise ProgramLimitExceeded("too many points requested")
    step = n.div(2.0 * math.pi, float(count))
    (x, y), radius = circle
    angles = [n.mul(step, float(place)) for place in range(count)]
    return Polygon(
        tuple(
            Point(n.sub(x, n.mul(radius, math.cos(angle))), n.add(y, n.mul(radius, math.sin(angle))))
            for angle in angles
        )
    )
