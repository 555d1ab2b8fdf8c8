"""Which functions and operators of geometry there are (pg_proc and pg_operator of PostgreSQL 15)."""

from __future__ import annotations

from collections.abc import Mapping

OPERATORS: Mapping[str, str] = {
    "#": """
        box_intersect(box,box)box line_interpt(line,line)point lseg_interpt(lseg,lseg)point
        path_npoints(path)int4 poly_npoints(polygon)int4
    """,
    "##": """
        close_ls(line,lseg)point close_lseg(lseg,lseg)point close_pb(point,box)point close_pl(point,line)point
        close_ps(point,lseg)point close_sb(lseg,box)point
    """,
    "&&": "box_overlap(box,box)bool circle_overlap(circle,circle)bool poly_overlap(polygon,polygon)bool",
    "&<": """
        box_overleft(box,box)bool circle_overleft(circle,circle)bool poly_overleft(polygon,polygon)bool
    """,
    "&<|": """
        box_overbelow(box,box)bool circle_overbelow(circle,circle)bool poly_overbelow(polygon,polygon)bool
    """,
    "&>": """
        box_overright(box,box)bool circle_overright(circle,circle)bool poly_overright(polygon,polygon)bool
    """,
    "*": """
        box_mul(box,point)box circle_mul_pt(circle,point)circle path_mul_pt(path,point)path
        point_mul(point,point)point
    """,
    "+": """
        box_add(box,point)box circle_add_pt(circle,point)circle path_add(path,path)path
        path_add_pt(path,point)path point_add(point,point)point
    """,
    "-": """
        box_sub(box,point)box circle_sub_pt(circle,point)circle path_sub_pt(path,point)path
        point_sub(point,point)point
    """,
    "/": """
        box_div(box,point)box circle_div_pt(circle,point)circle path_div_pt(path,point)path
        point_div(point,point)point
    """,
    "<": """
        box_lt(box,box)bool circle_lt(circle,circle)bool lseg_lt(lseg,lseg)bool path_n_lt(path,path)bool
    """,
    "<->": """
        box_distance(box,box)float8 circle_distance(circle,circle)float8 dist_bp(box,point)float8
        dist_bs(box,lseg)float8 dist_cpoint(circle,point)float8 dist_cpoly(circle,polygon)float8
        dist_lp(line,point)float8 dist_ls(line,lseg)float8 dist_pathp(path,point)float8 dist_pb(point,box)float8
        dist_pc(point,circle)float8 dist_pl(point,line)float8 dist_polyc(polygon,circle)float8
        dist_polyp(polygon,point)float8 dist_ppath(point,path)float8 dist_ppoly(point,polygon)float8
        dist_ps(point,lseg)float8 dist_sb(lseg,box)float8 dist_sl(lseg,line)float8 dist_sp(lseg,point)float8
        line_distance(line,line)float8 lseg_distance(lseg,lseg)float8 path_distance(path,path)float8
        point_distance(point,point)float8 poly_distance(polygon,polygon)float8
    """,
    "<<": """
        box_left(box,box)bool circle_left(circle,circle)bool point_left(point,point)bool
        poly_left(polygon,polygon)bool
    """,
    "<<|": """
        box_below(box,box)bool circle_below(circle,circle)bool point_below(point,point)bool
        poly_below(polygon,polygon)bool
    """,
    "<=": """
        box_le(box,box)bool circle_le(circle,circle)bool lseg_le(lseg,lseg)bool path_n_le(path,path)bool
    """,
    "<>": "circle_ne(circle,circle)bool lseg_ne(lseg,lseg)bool point_ne(point,point)bool",
    "<@": """
        box_contained(box,box)bool circle_contained(circle,circle)bool on_pb(point,box)bool
        on_pl(point,line)bool on_ppath(point,path)bool on_ps(point,lseg)bool on_sb(lseg,box)bool
        on_sl(lseg,line)bool poly_contained(polygon,polygon)bool pt_contained_circle(point,circle)bool
        pt_contained_poly(point,polygon)bool
    """,
    "<^": "box_below_eq(box,box)bool point_below(point,point)bool",
    "=": """
        box_eq(box,box)bool circle_eq(circle,circle)bool line_eq(line,line)bool lseg_eq(lseg,lseg)bool
        path_n_eq(path,path)bool
    """,
    ">": """
        box_gt(box,box)bool circle_gt(circle,circle)bool lseg_gt(lseg,lseg)bool path_n_gt(path,path)bool
    """,
    ">=": """
        box_ge(box,box)bool circle_ge(circle,circle)bool lseg_ge(lseg,lseg)bool path_n_ge(path,path)bool
    """,
    ">>": """
        box_right(box,box)bool circle_right(circle,circle)bool point_right(point,point)bool
        poly_right(polygon,polygon)bool
    """,
    ">^": "box_above_eq(box,box)bool point_above(point,point)bool",
    "?#": """
        box_overlap(box,box)bool inter_lb(line,box)bool inter_sb(lseg,box)bool inter_sl(lseg,line)bool
        line_intersect(line,line)bool lseg_intersect(lseg,lseg)bool path_inter(path,path)bool
    """,
    "?-": "line_horizontal(line)bool lseg_horizontal(lseg)bool point_horiz(point,point)bool",
    "?-|": "line_perp(line,line)bool lseg_perp(lseg,lseg)bool",
    "?|": "line_vertical(line)bool lseg_vertical(lseg)bool point_vert(point,point)bool",
    "?||": "line_parallel(line,line)bool lseg_parallel(lseg,lseg)bool",
    "@-@": "lseg_length(lseg)float8 path_length(path)float8",
    "@>": """
        box_contain(box,box)bool box_contain_pt(box,point)bool circle_contain(circle,circle)bool
        circle_contain_pt(circle,point)bool path_contain_pt(path,point)bool poly_contain(polygon,polygon)bool
        poly_contain_pt(polygon,point)bool
    """,
    "@@": """
        box_center(box)point circle_center(circle)point lseg_center(lseg)point poly_center(polygon)point
    """,
    "|&>": """
        box_overabove(box,box)bool circle_overabove(circle,circle)bool poly_overabove(polygon,polygon)bool
    """,
    "|>>": """
        box_above(box,box)bool circle_above(circle,circle)bool point_above(point,point)bool
        poly_above(polygon,polygon)bool
    """,
    "~=": """
        box_same(box,box)bool circle_same(circle,circle)bool point_eq(point,point)bool
        poly_same(polygon,polygon)bool
    """,
}
"""Of each operator: the functions that it calls, with the types of their arguments and of the result."""

FUNCTIONS = """
    area(box)float8 area(circle)float8 area(path)float8 bound_box(box,box)box box(circle)box box(point)box
    box(point,point)box box(polygon)box center(box)point center(circle)point circle(box)circle
    circle(polygon)circle diagonal(box)lseg diameter(circle)float8 height(box)float8 isclosed(path)bool
    ishorizontal(line)bool ishorizontal(lseg)bool ishorizontal(point,point)bool isopen(path)bool
    isparallel(line,line)bool isparallel(lseg,lseg)bool isperp(line,line)bool isperp(lseg,lseg)bool
    isvertical(line)bool isvertical(lseg)bool isvertical(point,point)bool length(lseg)float8 length(path)float8
    line(point,point)line lseg(box)lseg lseg(point,point)lseg npoints(path)int4 npoints(polygon)int4
    path(polygon)path pclose(path)path point(box)point point(circle)point point(lseg)point point(polygon)point
    polygon(box)polygon polygon(circle)polygon polygon(path)polygon popen(path)path radius(circle)float8
    slope(point,point)float8 width(box)float8
"""
"""The functions that no operator calls, without those that take numbers."""
