"""Paths and polygons. Source: path_... and poly_... of PostgreSQL's geo_ops.c."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.errors import InvalidParameterValue
from planner.functions.udfs.geometry import boxes, segments
from planner.values.geometry import numbers as n
from planner.values.geometry.shapes import Box, Circle, Lseg, Path, Point, Polygon, same_point

_ON_EDGE = 1 << 31


def bounds(points: Sequence[Point]) -> Box:
    """The smallest box around points."""
    high_x = low_x = points[0].x
    high_y = low_y = points[0].y
    for x, y in points[1:]:
        high_x, low_x = n.greater(x, high_x), n.smaller(x, low_x)
        high_y, low_y = n.greater(y, high_y), n.smaller(y, low_y)
    return Box(Point(high_x, high_y), Point(low_x, low_y))


def edges(points: Sequence[Point], *, closed: bool = True) -> Iterator[Lseg]:
    """The segments between points; of closed ones that from the last to the first comes first."""
    if closed:
        yield Lseg(points[-1], points[0])
    for place in range(1, len(points)):
        yield Lseg(points[place - 1], points[place])


def path_edges(path: Path) -> Iterator[Lseg]:
    """The segments of a path."""
    return edges(path.points, closed=path.closed)


def path_area(path: Path) -> float | None:
    """area(path): by the shoelace formula; None for an open one."""
    if not path.closed:
        return None
    area = 0.0
    for place, point in enumerate(path.points):
        after = path.points[(place + 1) % len(path.points)]
        area = n.add(area, n.mul(point.x, after.y))
        area = n.sub(area, n.mul(point.y, after.x))
    return n.div(abs(area), 2.0)


def path_length(path: Path) -> float:
    """path_length."""
    result = 0.0
    for edge in path_edges(path):
        result = n.add(result, segments.length(edge))
    return result


def paths_meet(one: Path, other: Path) -> bool:
    """path_inter."""
    if not boxes.overlap(bounds(one.points), bounds(other.points)):
        return False
    return any(segments.segments_meet(mine, its) for mine in path_edges(one) for its in path_edges(other))


def _least(distances: Iterator[float]) -> float | None:
    least: float | None = None
    for found in distances:
        if least is None or n.less(found, least):
            least = found
    return least


def between_paths(one: Path, other: Path) -> float | None:
    """path_distance."""
    return _least(segments.nearest_between(mine, its)[1] for mine in path_edges(one) for its in path_edges(other))


def path_to_point(path: Path, point: Point) -> float:
    """dist_pathp; 0 to a path of a single point that is open."""
    return _least(segments.nearest_of_segment(edge, point)[1] for edge in path_edges(path)) or 0.0


def path_holds(path: Path, point: Point) -> bool:
    """on_ppath: whether the point is on an open path, or in a closed one."""
    if path.closed:
        return is_inside(point, path.points)
    before = segments.distance(point, path.points[0])
    for edge in path_edges(path):
        after = segments.distance(point, edge.end)
        if n.eq(n.add(before, after), segments.length(edge)):
            return True
        before = after
    return False


def joined(one: Path, other: Path) -> Path | None:
    """path_add: both open paths as one."""
    if one.closed or other.closed:
        return None
    return Path(False, one.points + other.points)


def as_polygon(path: Path) -> Polygon:
    """polygon(path). Raises 22023 for an open one."""
    if not path.closed:
        raise InvalidParameterValue("open path cannot be converted to polygon")
    return Polygon(path.points)


# ---------------------------------------------------------------- polygons


def is_inside(point: Point, points: Sequence[Point]) -> bool:
    """Whether a point is in, or on the edge of, a polygon: its edges cross a ray from there unequally often."""
    relative = [Point(n.sub(x, point.x), n.sub(y, point.y)) for x, y in points]
    total = 0
    before = relative[0]
    for place in [*range(1, len(relative)), 0]:
        crossed = _crossed(relative[place], before)
        if crossed == _ON_EDGE:
            return True
        total += crossed
        before = relative[place]
    return total != 0


def _crossed(to: Point, before: Point) -> int:
    """How an edge crosses the positive x axis: twice up or down, once where it ends or begins there (lseg_crossing)."""
    if n.is_zero(to.y):
        return _reached(to.x, before)
    sign = 1 if n.gt(to.y, 0.0) else -1
    if n.is_zero(before.y):
        return 0 if n.lt(before.x, 0.0) else sign
    if (sign < 0 and n.lt(before.y, 0.0)) or (sign > 0 and n.gt(before.y, 0.0)):
        return 0
    if n.ge(to.x, 0.0) and n.gt(before.x, 0.0):
        return 2 * sign
    if n.lt(to.x, 0.0) and n.le(before.x, 0.0):
        return 0
    z = n.sub(n.mul(n.sub(to.x, before.x), to.y), n.mul(n.sub(to.y, before.y), to.x))
    if n.is_zero(z):
        return _ON_EDGE
    if (sign < 0 and n.lt(z, 0.0)) or (sign > 0 and n.gt(z, 0.0)):
        return 0
    return 2 * sign


def _reached(x: float, before: Point) -> int:
    """`_crossed` for an edge that ends on the axis, at `x`."""
    if n.is_zero(x):
        return _ON_EDGE
    if n.gt(x, 0.0):
        if n.is_zero(before.y):
            return 0 if n.gt(before.x, 0.0) else _ON_EDGE
        return 1 if n.lt(before.y, 0.0) else -1
    if n.is_zero(before.y):
        return 0 if n.lt(before.x, 0.0) else _ON_EDGE
    return 0


def polygon_holds(polygon: Polygon, point: Point) -> bool:
    """poly_contain_pt."""
    return is_inside(point, polygon.points)


def polygons_overlap(one: Polygon, other: Polygon) -> bool:
    """poly_overlap."""
    if not boxes.overlap(bounds(one.points), bounds(other.points)):
        return False
    if any(segments.segments_meet(mine, its) for mine in edges(one.points) for its in edges(other.points)):
        return True
    return is_inside(one.points[0], other.points) or is_inside(other.points[0], one.points)


def polygon_holds_polygon(outer: Polygon, inner: Polygon) -> bool:
    """poly_contain."""
    if not boxes.holds_box(bounds(outer.points), bounds(inner.points)):
        return False
    return all(_holds_segment(outer.points, edge.start, edge.end, 0) for edge in edges(inner.points))


def _holds_segment(points: Sequence[Point], a: Point, b: Point, first: int) -> bool:
    """Whether the segment from `a` to `b` is in the polygon; edges before `first` have been looked at
    (lseg_inside_poly)."""
    segment = Lseg(a, b)
    crossed = False
    before = points[first - 1]
    for place in range(first, len(points)):
        edge = Lseg(before, points[place])
        before = points[place]
        if segments.segment_holds(edge, a):
            if segments.segment_holds(edge, b):
                return True
            inside = _holds_rest(points, a, b, edge, place + 1)
        elif segments.segment_holds(edge, b):
            inside = _holds_rest(points, b, a, edge, place + 1)
        else:
            met = segments.meeting(segment, edge)
            if met is None:
                continue
            crossed = True
            inside = _holds_segment(points, a, met, place + 1) and _holds_segment(points, b, met, place + 1)
        if not inside:
            return False
    return crossed or is_inside(segments.middle(a, b), points)


def _holds_rest(points: Sequence[Point], a: Point, b: Point, edge: Lseg, first: int) -> bool:
    """Of a segment whose end `a` lies on `edge`: whether what is beyond that edge is in the polygon
    (touched_lseg_inside_poly)."""
    segment = Lseg(a, b)
    if same_point(a, edge.start):
        return not segments.segment_holds(segment, edge.end) or _holds_segment(points, b, edge.end, first)
    if same_point(a, edge.end):
        return not segments.segment_holds(segment, edge.start) or _holds_segment(points, b, edge.start, first)
    for end in edge:
        if segments.segment_holds(segment, end):
            return _holds_segment(points, b, end, first)
    return True


def same_polygon(one: Polygon, other: Polygon) -> bool:
    """poly_same: the same points in the same order, or the reverse one, wherever it begins."""
    size = len(one.points)
    if size != len(other.points):
        return False
    for start, point in enumerate(other.points):
        if not same_point(point, one.points[0]):
            continue
        for step in (1, -1):
            if all(same_point(other.points[(start + step * k) % size], one.points[k]) for k in range(1, size)):
                return True
    return False


def between_polygons(one: Polygon, other: Polygon) -> float | None:
    """poly_distance."""
    if polygons_overlap(one, other):
        return 0.0
    return _least(segments.nearest_between(mine, its)[1] for mine in edges(one.points) for its in edges(other.points))


def polygon_to_point(polygon: Polygon, point: Point) -> float:
    """dist_polyp."""
    if is_inside(point, polygon.points):
        return 0.0
    least = segments.nearest_of_segment(Lseg(polygon.points[0], polygon.points[-1]), point)[1]
    for edge in edges(polygon.points, closed=False):
        found = segments.nearest_of_segment(edge, point)[1]
        if n.less(found, least):
            least = found
    return least


def circle_around(polygon: Polygon) -> Circle:
    """poly_circle: around the mean of the points, with their mean distance from it."""
    center = Point(0.0, 0.0)
    for point in polygon.points:
        center = segments.moved(center, point)
    count = float(len(polygon.points))
    center = Point(n.div(center.x, count), n.div(center.y, count))
    radius = 0.0
    for point in polygon.points:
        radius = n.add(radius, segments.distance(point, center))
    return Circle(center, n.div(radius, count))


def from_box(box: Box) -> Polygon:
    """box_poly."""
    high, low = box
    return Polygon((low, Point(low.x, high.y), high, Point(high.x, low.y)))
