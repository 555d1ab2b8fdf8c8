"""json and jsonb, both held as text: json as it was given, jsonb in its normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import InvalidParameterValue
from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both, local_only


def _anywhere(template: Callable[[CallSite], str]) -> Form:
    """A template that calls at most one function in Python, around all the rest."""

    def spark(site: CallSite) -> str:
        return checked(template(site))

    return Form(local=template, spark=spark)


def _build_array(kind: str) -> Form:
    def template(site: CallSite) -> str:
        if site.spread:
            return "tg_json_array_of({json:0})" if kind == "json" else "tg_jsonb_in({json:0})"
        items = " || ', ' || ".join(f"coalesce({{json:{index}}}, 'null')" for index in range(len(site.arg_types)))
        text = f"('[' || {items} || ']')"
        return text if kind == "json" else f"tg_jsonb_in({text})"

    return _anywhere(template)


def _build_object(kind: str) -> Form:
    def template(site: CallSite) -> str:
        if site.spread:
            keys = site.dialect.transform("{0}", "e", "{element_text:0}")
            made = f"tg_json_object_of({keys}, {{json:0}}, '{kind}')"
            return made if kind == "json" else f"tg_jsonb_in({made})"
        if len(site.arg_types) % 2:
            raise InvalidParameterValue(
                "argument list must have even number of elements",
                hint=f"The arguments of {kind}_build_object() must consist of alternating keys and values.",
            )
        pairs = [
            f"tg_{kind}_member({{key:{index}}}, {index + 1}) || ' : ' || coalesce({{json:{index + 1}}}, 'null')"
            for index in range(0, len(site.arg_types), 2)
        ]
        body = " || ', ' || ".join(pairs)
        text = f"('{{' || {body} || '}}')".replace("{{", "{").replace("}}", "}")
        return text if kind == "json" else f"tg_jsonb_in({text})"

    return _anywhere(template)


def _object(kind: str, *, pair: bool) -> Form:
    """json_object() of an array, or of one of keys and one of values."""

    def template(site: CallSite) -> str:
        made = "tg_json_object_pair({0}, {1})" if pair else "tg_json_object({0})"
        for place, type in enumerate(site.arg_types):
            if type.dimensioned:
                made = made.replace(f"{{{place}}}", f"({{{place}}}).items")
        return made if kind == "json" else f"tg_jsonb_in({made})"

    def chosen(site: CallSite) -> str:
        made = template(site)
        dimensioned = [place for place, type in enumerate(site.arg_types) if type.dimensioned]
        if dimensioned and pair:
            many = [
                f"({{{place}}}).dims IS NOT NULL AND {site.dialect.nth(f'({{{place}}}).dims', '1')} > 1"
                for place in dimensioned
            ]
            fault = site.dialect.raise_sql("2202E", "wrong number of array subscripts")
            return f"CASE WHEN {' OR '.join(many)} THEN {fault} ELSE {made} END"
        if dimensioned:
            of_dims = "tg_json_object_dims(({0}).items, ({0}).dims)"
            shown = of_dims if kind == "json" else f"tg_jsonb_in({of_dims})"
            return f"CASE WHEN ({{0}}).dims IS NULL THEN {made} ELSE {shown} END"
        return made

    return _anywhere(chosen)


def _pretty(site: CallSite) -> str | None:
    wanted = site.constants[1]
    if isinstance(wanted, bool):
        return "{pretty:0}" if wanted else "{json:0}"
    return "CASE WHEN {1} THEN {pretty:0} WHEN NOT {1} THEN {json:0} END"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {
        "to_json(anyelement)": both("{json:0}"),
        "row_to_json(record)": both("{json:0}"),
        "row_to_json(record,bool)": both(_pretty),
        "array_to_json(anyarray,bool)": both(_pretty),
        "to_jsonb(anyelement)": _anywhere(lambda site: "tg_jsonb_in({json:0})"),
        "array_to_json(anyarray)": both("{json:0}"),
        "jsonb_pretty(jsonb)": local_only("tg_jsonb_pretty({0})"),
        "||(jsonb,jsonb)": local_only("tg_jsonb_concat({0}, {1})"),
        "-(jsonb,text)": local_only("tg_jsonb_delete({0}, {1})"),
        "-(jsonb,int4)": local_only("tg_jsonb_delete_index({0}, {1})"),
        "-(jsonb,text[])": local_only("tg_jsonb_delete_keys({0}, {1})"),
        "#-(jsonb,text[])": local_only("tg_jsonb_delete_path({0}, {1})"),
        "@>(jsonb,jsonb)": local_only("tg_jsonb_contains({0}, {1})"),
        "<@(jsonb,jsonb)": local_only("tg_jsonb_contains({1}, {0})"),
        "?(jsonb,text)": local_only("CASE WHEN {1} IS NOT NULL THEN tg_jsonb_exists({0}, [{1}], 'any') END"),
        "?|(jsonb,text[])": local_only("tg_jsonb_exists({0}, {1}, 'any')"),
        "?&(jsonb,text[])": local_only("tg_jsonb_exists({0}, {1}, 'all')"),
        "jsonb_set(jsonb,text[],jsonb,bool)": local_only("tg_jsonb_set({0}, {1}, {2}, {3})"),
        "jsonb_set_lax(jsonb,text[],jsonb,bool,text)": local_only("tg_jsonb_set_lax({0}, {1}, {2}, {3}, {4})"),
        "jsonb_insert(jsonb,text[],jsonb,bool)": local_only("tg_jsonb_insert({0}, {1}, {2}, {3})"),
    }
    for kind in ("json", "jsonb"):
        given[f"->({kind},text)"] = local_only(f"tg_json_get({{0}}, {{1}}, '{kind}')")
        given[f"->({kind},int4)"] = local_only(f"tg_{kind}_get_index({{0}}, {{1}}, '{kind}')")
        given[f"->>({kind},text)"] = local_only("tg_json_get({0}, {1}, 'text')")
        given[f"->>({kind},int4)"] = local_only(f"tg_{kind}_get_index({{0}}, {{1}}, 'text')")
        given[f"#>({kind},text[])"] = given[f"{kind}_extract_path({kind},text[])"] = local_only(
            f"tg_json_path({{0}}, {{1}}, '{kind}')"
        )
        given[f"#>>({kind},text[])"] = given[f"{kind}_extract_path_text({kind},text[])"] = local_only(
            "tg_json_path({0}, {1}, 'text')"
        )
        given[f"{kind}_typeof({kind})"] = local_only("tg_json_typeof({0})")
        given[f"{kind}_array_length({kind})"] = local_only("tg_json_array_length({0})")
        given[f"{kind}_strip_nulls({kind})"] = local_only(f"tg_json_strip_nulls({{0}}, '{kind}')")
        given[f"{kind}_build_array(any)"] = _build_array(kind)
        given[f"{kind}_build_object(any)"] = _build_object(kind)
        given[f"{kind}_object(text[])"] = _object(kind, pair=False)
        given[f"{kind}_object(text[],text[])"] = _object(kind, pair=True)
        given[f"{kind}_build_array()"] = both("'[]'")
        given[f"{kind}_build_object()"] = both("'{}'")
        for name, form in ((f"{kind}_array_elements", kind), (f"{kind}_array_elements_text", "text")):
            given[f"{name}({kind})"] = local_only(f"tg_json_elements({{0}}, '{form}', '{name}')")
        given[f"{kind}_object_keys({kind})"] = local_only(f"tg_json_keys({{0}}, '{kind}_object_keys')")
        given[f"{kind}_each({kind})"] = local_only(f"tg_json_each({{0}}, '{kind}_each')")
        given[f"{kind}_each_text({kind})"] = local_only(f"tg_json_each({{0}}, '{kind}_each_text')")
    return given
