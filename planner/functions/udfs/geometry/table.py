"""The functions of geometry by the names that PostgreSQL's pg_proc has for them.

Each takes and gives values of `planner.values.geometry.shapes`; the engines call them through the few functions of
`UDFS`, which take the name and texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from planner.errors import StatementTooComplex
from planner.functions.udfs.geometry import boxes, circles, paths, segments
from planner.functions.udfs.geometry.signatures import FUNCTIONS, OPERATORS
from planner.functions.udfs.table import Udf
from planner.values.floats.float_text import format_float
from planner.values.geometry import numbers as n
from planner.values.geometry.shapes import (
    NAMES,
    Box,
    Circle,
    Lseg,
    Path,
    Point,
    Polygon,
    box_of,
    held,
    line_between,
    parse,
    part,
    same_point,
    show,
    slope,
    with_part,
)

A = TypeVar("A")
B = TypeVar("B")


class Routine(Struct, frozen=True):
    """One of PostgreSQL's functions: its name there, its types, and what computes it."""

    name: str
    args: tuple[str, ...]
    result: str
    call: Callable[..., Any]

    @property
    def key(self) -> str:
        return f"{self.name}({','.join(self.args)})"


_AREA_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "lt": n.lt, "le": n.le, "gt": n.gt, "ge": n.ge, "eq": n.eq,
}  # fmt: skip
_COUNT_ORDERS: Mapping[str, Callable[[int, int], bool]] = {
    "n_lt": int.__lt__, "n_le": int.__le__, "n_gt": int.__gt__, "n_ge": int.__ge__, "n_eq": int.__eq__,
}  # fmt: skip


def _flipped(call: Callable[[A, B], Any]) -> Callable[[B, A], Any]:
    return lambda one, other: call(other, one)


def _by(measure: Callable[[Any], Any], order: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: order(measure(one), measure(other))


def _each(change: Callable[[Point, Point], Point]) -> Callable[[Path, Point], Path]:
    return lambda path, by: Path(path.closed, tuple(change(point, by) for point in path.points))


def _positions(
    ends: Callable[[Any], tuple[float, float, float, float]],
    less: Callable[[float, float], bool],
    at_most: Callable[[float, float], bool],
) -> Mapping[str, Callable[[Any, Any], bool]]:
    """How two shapes lie to each other by their left, right, lower and upper ends."""
    return {
        "left": lambda a, b: less(ends(a)[1], ends(b)[0]),
        "right": lambda a, b: less(ends(b)[1], ends(a)[0]),
        "below": lambda a, b: less(ends(a)[3], ends(b)[2]),
        "above": lambda a, b: less(ends(b)[3], ends(a)[2]),
        "overleft": lambda a, b: at_most(ends(a)[1], ends(b)[1]),
        "overright": lambda a, b: at_most(ends(b)[0], ends(a)[0]),
        "overbelow": lambda a, b: at_most(ends(a)[3], ends(b)[3]),
        "overabove": lambda a, b: at_most(ends(b)[2], ends(a)[2]),
    }


def _box_ends(box: Box) -> tuple[float, float, float, float]:
    return box.low.x, box.high.x, box.low.y, box.high.y


def _polygon_ends(polygon: Polygon) -> tuple[float, float, float, float]:
    return _box_ends(paths.bounds(polygon.points))


def _less(a: float, b: float) -> bool:
    return a < b


def _at_most(a: float, b: float) -> bool:
    return a <= b


_CALLS: Mapping[str, Callable[..., Any]] = {
    # points
    "point_add": segments.moved,
    "point_sub": segments.moved_back,
    "point_mul": segments.times,
    "point_div": segments.over,
    "point_eq": same_point,
    "point_ne": lambda a, b: not same_point(a, b),
    "point_left": lambda a, b: n.lt(a.x, b.x),
    "point_right": lambda a, b: n.gt(a.x, b.x),
    "point_above": lambda a, b: n.gt(a.y, b.y),
    "point_below": lambda a, b: n.lt(a.y, b.y),
    "point_vert": lambda a, b: n.eq(a.x, b.x),
    "point_horiz": lambda a, b: n.eq(a.y, b.y),
    "point_distance": segments.distance,
    "slope": slope,
    "line": line_between,
    # lines
    "line_eq": segments.same_line,
    "line_intersect": segments.lines_meet,
    "line_parallel": segments.are_parallel,
    "line_perp": segments.are_perpendicular,
    "line_vertical": lambda line: n.is_zero(line.b),
    "line_horizontal": lambda line: n.is_zero(line.a),
    "line_distance": segments.between_lines,
    "line_interpt": segments.crossing,
    # segments
    "lseg_eq": lambda a, b: same_point(a.start, b.start) and same_point(a.end, b.end),
    "lseg_ne": lambda a, b: not (same_point(a.start, b.start) and same_point(a.end, b.end)),
    **{f"lseg_{name}": _by(segments.length, order) for name, order in _AREA_ORDERS.items() if name != "eq"},
    "lseg_length": segments.length,
    "lseg_center": lambda segment: segments.middle(*segment),
    "lseg_vertical": lambda segment: n.eq(segment.start.x, segment.end.x),
    "lseg_horizontal": lambda segment: n.eq(segment.start.y, segment.end.y),
    "lseg_parallel": _by(segments.segment_slope, n.eq),
    "lseg_perp": lambda a, b: n.eq(slope(*a), segments.inverse_slope(*b)),
    "lseg_intersect": segments.segments_meet,
    "lseg_interpt": segments.meeting,
    "lseg_distance": lambda a, b: segments.nearest_between(a, b)[1],
    "lseg": Lseg,
    # what is nearest
    "close_ps": segments.nearest_point_of_segment,
    "close_pl": segments.nearest_point_of_line,
    "close_pb": lambda point, box: segments.existing(boxes.nearest(box, point)),
    "close_lseg": segments.nearest_point_of_second,
    "close_sb": lambda segment, box: segments.existing(boxes.nearest_to_segment(box, segment)),
    "close_ls": segments.nearest_point_to_line,
    "dist_pl": lambda point, line: segments.nearest_of_line(line, point)[1],
    "dist_lp": lambda line, point: segments.nearest_of_line(line, point)[1],
    "dist_ps": lambda point, segment: segments.nearest_of_segment(segment, point)[1],
    "dist_sp": lambda segment, point: segments.nearest_of_segment(segment, point)[1],
    "dist_sl": lambda segment, line: segments.nearest_of_segment_to_line(segment, line)[1],
    "dist_ls": lambda line, segment: segments.nearest_of_segment_to_line(segment, line)[1],
    "dist_pb": lambda point, box: boxes.nearest(box, point)[1],
    "dist_bp": lambda box, point: boxes.nearest(box, point)[1],
    "dist_sb": lambda segment, box: boxes.nearest_to_segment(box, segment)[1],
    "dist_bs": lambda box, segment: boxes.nearest_to_segment(box, segment)[1],
    "dist_ppath": _flipped(paths.path_to_point),
    "dist_pathp": paths.path_to_point,
    "dist_ppoly": _flipped(paths.polygon_to_point),
    "dist_polyp": paths.polygon_to_point,
    "dist_pc": _flipped(circles.to_point),
    "dist_cpoint": circles.to_point,
    "dist_cpoly": circles.to_polygon,
    "dist_polyc": _flipped(circles.to_polygon),
    # what is on what
    "on_pl": _flipped(segments.line_holds),
    "on_ps": _flipped(segments.segment_holds),
    "on_pb": _flipped(boxes.holds_point),
    "on_ppath": _flipped(paths.path_holds),
    "on_sl": lambda segment, line: all(segments.line_holds(line, end) for end in segment),
    "on_sb": _flipped(boxes.holds_segment),
    "inter_sl": lambda segment, line: segments.meeting_line(segment, line) is not None,
    "inter_sb": _flipped(boxes.meets_segment),
    "inter_lb": boxes.meets_line,
    # boxes
    **{f"box_{name}": _by(boxes.area, order) for name, order in _AREA_ORDERS.items()},
    **{f"box_{name}": call for name, call in _positions(_box_ends, n.lt, n.le).items()},
    "box_same": lambda a, b: same_point(a.high, b.high) and same_point(a.low, b.low),
    "box_overlap": boxes.overlap,
    "box_contain": boxes.holds_box,
    "box_contained": _flipped(boxes.holds_box),
    "box_contain_pt": boxes.holds_point,
    "box_below_eq": lambda a, b: n.le(a.high.y, b.low.y),
    "box_above_eq": lambda a, b: n.ge(a.low.y, b.high.y),
    "box_add": lambda box, by: Box(segments.moved(box.high, by), segments.moved(box.low, by)),
    "box_sub": lambda box, by: Box(segments.moved_back(box.high, by), segments.moved_back(box.low, by)),
    "box_mul": boxes.times,
    "box_div": boxes.over,
    "box_intersect": boxes.intersection,
    "box_distance": boxes.between_boxes,
    "box_center": boxes.center,
    "area(box)": boxes.area,
    "width": boxes.width,
    "height": boxes.height,
    "diagonal": lambda box: Lseg(*box),
    "bound_box": boxes.around,
    "box(point)": lambda point: Box(point, point),
    "box(point,point)": box_of,
    "box(circle)": circles.box_within,
    "box(polygon)": lambda polygon: paths.bounds(polygon.points),
    # paths
    **{f"path_{name}": _by(lambda path: len(path.points), order) for name, order in _COUNT_ORDERS.items()},
    "path_add": paths.joined,
    "path_add_pt": _each(segments.moved),
    "path_sub_pt": _each(segments.moved_back),
    "path_mul_pt": _each(segments.times),
    "path_div_pt": _each(segments.over),
    "path_inter": paths.paths_meet,
    "path_distance": paths.between_paths,
    "path_length": paths.path_length,
    "path_contain_pt": paths.path_holds,
    "path_npoints": lambda path: len(path.points),
    "area(path)": paths.path_area,
    "isclosed": lambda path: path.closed,
    "isopen": lambda path: not path.closed,
    "pclose": lambda path: Path(True, path.points),
    "popen": lambda path: Path(False, path.points),
    "path": lambda polygon: Path(True, polygon.points),
    # polygons
    **{f"poly_{name}": call for name, call in _positions(_polygon_ends, _less, _at_most).items()},
    "poly_same": paths.same_polygon,
    "poly_overlap": paths.polygons_overlap,
    "poly_contain": paths.polygon_holds_polygon,
    "poly_contained": _flipped(paths.polygon_holds_polygon),
    "poly_contain_pt": paths.polygon_holds,
    "pt_contained_poly": _flipped(paths.polygon_holds),
    "poly_distance": paths.between_polygons,
    "poly_npoints": lambda polygon: len(polygon.points),
    "poly_center": lambda polygon: paths.circle_around(polygon).center,
    "polygon(box)": paths.from_box,
    "polygon(path)": paths.as_polygon,
    # circles
    **{f"circle_{name}": _by(circles.area, order) for name, order in _AREA_ORDERS.items()},
    **{f"circle_{name}": call for name, call in _positions(circles.bounds, n.lt, n.le).items()},
    "circle_ne": _by(circles.area, n.ne),
    "circle_same": circles.same,
    "circle_overlap": circles.overlap,
    "circle_contain": circles.holds,
    "circle_contained": _flipped(circles.holds),
    "circle_contain_pt": circles.holds_point,
    "pt_contained_circle": _flipped(circles.holds_point),
    "circle_add_pt": lambda circle, by: Circle(segments.moved(circle.center, by), circle.radius),
    "circle_sub_pt": lambda circle, by: Circle(segments.moved_back(circle.center, by), circle.radius),
    "circle_mul_pt": circles.times,
    "circle_div_pt": circles.over,
    "circle_distance": circles.between,
    "circle_center": lambda circle: circle.center,
    "area(circle)": circles.area,
    "diameter": lambda circle: n.mul(circle.radius, 2.0),
    "radius": lambda circle: circle.radius,
    "circle(box)": circles.around_box,
    "circle(polygon)": paths.circle_around,
    "polygon(circle)": lambda circle: circles.as_polygon(12, circle),
}

_ALIASES: Mapping[str, str] = {
    "center(box)": "box_center", "center(circle)": "circle_center", "ishorizontal(line)": "line_horizontal",
    "ishorizontal(lseg)": "lseg_horizontal", "ishorizontal(point,point)": "point_horiz",
    "isvertical(line)": "line_vertical", "isvertical(lseg)": "lseg_vertical", "isvertical(point,point)": "point_vert",
    "isparallel(line,line)": "line_parallel", "isparallel(lseg,lseg)": "lseg_parallel",
    "isperp(line,line)": "line_perp", "isperp(lseg,lseg)": "lseg_perp", "length(lseg)": "lseg_length",
    "length(path)": "path_length", "lseg(box)": "diagonal", "npoints(path)": "path_npoints",
    "npoints(polygon)": "poly_npoints", "point(box)": "box_center",
    "point(circle)": "circle_center", "point(lseg)": "lseg_center", "point(polygon)": "poly_center",
}  # fmt: skip
"""Functions that do what others do."""

_SIGNATURE = re.compile(r"(\w+)\(([\w,]+)\)(\w+)")


def _routines(text: str) -> list[Routine]:
    found = []
    for name, args, result in _SIGNATURE.findall(text):
        key = f"{name}({args})"
        called = _ALIASES.get(key, name if name in _CALLS else key)
        found.append(Routine(name, tuple(args.split(",")), result, _CALLS[called]))
    return found


OF_OPERATORS: Mapping[str, list[Routine]] = {symbol: _routines(text) for symbol, text in OPERATORS.items()}
"""The functions of each operator."""
OF_NAMES = _routines(FUNCTIONS)
"""The functions that no operator calls."""

ROUTINES: Mapping[str, Routine] = {
    routine.key: routine for routine in [*OF_NAMES, *(found for several in OF_OPERATORS.values() for found in several)]
}
"""All of them, by name and types of arguments."""

ENGINE_TYPES: Mapping[str, str] = {"bool": "BOOLEAN", "int4": "INTEGER"}
"""The types of results that are not given as text, as DuckDB calls them. A float8 is: NaN that a function in Python
returns comes back as NULL."""


def _called(key: str, *texts: str) -> Any:
    routine = ROUTINES[key]
    try:
        value = routine.call(*(parse(text, name) for text, name in zip(texts, routine.args, strict=True)))
    except RecursionError:
        raise StatementTooComplex("stack depth limit exceeded") from None
    if value is None:
        return None
    if routine.result == "float8":
        return format_float(value)
    return show(value) if routine.result in NAMES else value


def _number(text: str, name: str, place: int) -> str | None:
    found = part(parse(text, name), place)
    return None if found is None else format_float(found)


def _corner(text: str, name: str, place: int) -> str | None:
    found = part(parse(text, name), place)
    return None if found is None else show(found)


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    **{
        f"tg_geometry_{count}_{result.lower()}": Udf((_T,) * (count + 1), result, _called)
        for count in (1, 2)
        for result in (_T, *ENGINE_TYPES.values())
    },
    "tg_geometry_in": Udf((_T, _T), _T, held),
    "tg_point_of": Udf(("DOUBLE", "DOUBLE"), _T, lambda x, y: show(Point(x, y))),
    "tg_circle_of": Udf((_T, "DOUBLE"), _T, lambda point, radius: show(Circle(parse(point, "point"), radius))),
    "tg_polygon_of": Udf(
        ("INTEGER", _T), _T, lambda count, circle: show(circles.as_polygon(count, parse(circle, "circle")))
    ),
    "tg_geometry_number": Udf((_T, _T, "INTEGER"), _T, _number),
    "tg_geometry_with_number": Udf(
        (_T, _T, "INTEGER", "DOUBLE"),
        _T,
        lambda text, name, place, number: show(with_part(parse(text, name), place, number)),
    ),
    "tg_geometry_with_corner": Udf(
        (_T, _T, "INTEGER", _T),
        _T,
        lambda text, name, place, point: show(with_part(parse(text, name), place, parse(point, "point"))),
    ),
    "tg_geometry_corner": Udf((_T, _T, "INTEGER"), _T, _corner),
}
