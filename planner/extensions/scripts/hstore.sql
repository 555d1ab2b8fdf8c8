CREATE FUNCTION fetchval(hstore, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_value($1, $2)';
CREATE FUNCTION slice_array(hstore, text[]) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_values_of($1, $2)';
CREATE FUNCTION slice(hstore, text[]) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_slice($1, $2)';
CREATE FUNCTION isexists(hstore, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_has($1, $2)';
CREATE FUNCTION exist(hstore, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_has($1, $2)';
CREATE FUNCTION exists_any(hstore, text[]) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_has_any($1, $2)';
CREATE FUNCTION exists_all(hstore, text[]) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_has_all($1, $2)';
CREATE FUNCTION isdefined(hstore, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_is_defined($1, $2)';
CREATE FUNCTION defined(hstore, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_is_defined($1, $2)';
CREATE FUNCTION delete(hstore, text) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_without($1, $2)';
CREATE FUNCTION delete(hstore, text[]) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_without($1, $2)';
CREATE FUNCTION delete(hstore, hstore) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_without($1, $2)';
CREATE FUNCTION hs_concat(hstore, hstore) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_joined($1, $2)';
CREATE FUNCTION hs_contains(hstore, hstore) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_contains($1, $2)';
CREATE FUNCTION hs_contained(hstore, hstore) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_contains($2, $1)';
CREATE FUNCTION tconvert(text, text) RETURNS hstore LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidegate.hstore_of_pair(NULL::hstore, $1, $2);
CREATE FUNCTION hstore(text, text) RETURNS hstore LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidegate.hstore_of_pair(NULL::hstore, $1, $2);
CREATE FUNCTION hstore(text[], text[]) RETURNS hstore LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidegate.hstore_of_lists(NULL::hstore, $1, $2);
CREATE FUNCTION hstore(text[]) RETURNS hstore LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN tidegate.hstore_of_list(NULL::hstore, $1);
CREATE FUNCTION hstore_to_json(hstore) RETURNS json LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_json($1, false)';
CREATE FUNCTION hstore_to_json_loose(hstore) RETURNS json LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_json($1, true)';
CREATE FUNCTION hstore_to_jsonb(hstore) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_jsonb($1, false)';
CREATE FUNCTION hstore_to_jsonb_loose(hstore) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_jsonb($1, true)';
CREATE FUNCTION hstore_to_array(hstore) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_flat($1)';
CREATE FUNCTION hstore_to_matrix(hstore) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_matrix($1)';
CREATE FUNCTION akeys(hstore) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_keys($1)';
CREATE FUNCTION avals(hstore) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_values($1)';
CREATE FUNCTION skeys(hstore) RETURNS SETOF text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.unnest(tidegate.hstore_keys($1))';
CREATE FUNCTION svals(hstore) RETURNS SETOF text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.unnest(tidegate.hstore_values($1))';
CREATE FUNCTION each(IN hs hstore, OUT key text, OUT value text) RETURNS SETOF record
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.unnest(tidegate.hstore_keys($1)), pg_catalog.unnest(tidegate.hstore_values($1))';
CREATE FUNCTION hstore_eq(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text = $2::pg_catalog.text';
CREATE FUNCTION hstore_ne(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text <> $2::pg_catalog.text';
CREATE FUNCTION hstore_gt(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_key($1) > tidegate.hstore_key($2)';
CREATE FUNCTION hstore_ge(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_key($1) >= tidegate.hstore_key($2)';
CREATE FUNCTION hstore_lt(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_key($1) < tidegate.hstore_key($2)';
CREATE FUNCTION hstore_le(hstore, hstore) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.hstore_key($1) <= tidegate.hstore_key($2)';
CREATE FUNCTION hstore_cmp(hstore, hstore) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT CASE WHEN tidegate.hstore_key($1) < tidegate.hstore_key($2) THEN -1 WHEN $1::pg_catalog.text = $2::pg_catalog.text THEN 0 ELSE 1 END';
