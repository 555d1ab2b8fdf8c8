CREATE FUNCTION citext(bpchar) RETURNS citext LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text';
CREATE FUNCTION citext(boolean) RETURNS citext LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text';
CREATE FUNCTION citext(inet) RETURNS citext LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text';
CREATE FUNCTION citext_eq(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) = pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_ne(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) <> pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_lt(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) < pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_le(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) <= pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_gt(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) > pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_ge(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) >= pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_pattern_lt(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) < pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_pattern_le(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) <= pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_pattern_gt(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) > pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_pattern_ge(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lower($1::pg_catalog.text) >= pg_catalog.lower($2::pg_catalog.text)';
CREATE FUNCTION citext_cmp(citext, citext) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT CASE WHEN pg_catalog.lower($1::pg_catalog.text) < pg_catalog.lower($2::pg_catalog.text) THEN -1 WHEN pg_catalog.lower($1::pg_catalog.text) > pg_catalog.lower($2::pg_catalog.text) THEN 1 ELSE 0 END';
CREATE FUNCTION citext_pattern_cmp(citext, citext) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT CASE WHEN pg_catalog.lower($1::pg_catalog.text) < pg_catalog.lower($2::pg_catalog.text) THEN -1 WHEN pg_catalog.lower($1::pg_catalog.text) > pg_catalog.lower($2::pg_catalog.text) THEN 1 ELSE 0 END';
CREATE FUNCTION citext_smaller(citext, citext) RETURNS citext LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT CASE WHEN pg_catalog.lower($1::pg_catalog.text) < pg_catalog.lower($2::pg_catalog.text) THEN $1 ELSE $2 END';
CREATE FUNCTION citext_larger(citext, citext) RETURNS citext LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT CASE WHEN pg_catalog.lower($1::pg_catalog.text) > pg_catalog.lower($2::pg_catalog.text) THEN $1 ELSE $2 END';
CREATE FUNCTION texticlike(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text ~~* $2::pg_catalog.text';
CREATE FUNCTION texticnlike(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text !~~* $2::pg_catalog.text';
CREATE FUNCTION texticregexeq(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text ~* $2::pg_catalog.text';
CREATE FUNCTION texticregexne(citext, citext) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text !~* $2::pg_catalog.text';
CREATE FUNCTION texticlike(citext, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text ~~* $2::pg_catalog.text';
CREATE FUNCTION texticnlike(citext, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text !~~* $2::pg_catalog.text';
CREATE FUNCTION texticregexeq(citext, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text ~* $2::pg_catalog.text';
CREATE FUNCTION texticregexne(citext, text) RETURNS bool LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT $1::pg_catalog.text !~* $2::pg_catalog.text';
CREATE FUNCTION regexp_match(citext, citext) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_match($1::pg_catalog.text, $2::pg_catalog.text, ''i'')';
CREATE FUNCTION regexp_match(citext, citext, text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_match($1::pg_catalog.text, $2::pg_catalog.text, CASE WHEN pg_catalog.strpos($3, ''c'') = 0 THEN $3 || ''i'' ELSE $3 END)';
CREATE FUNCTION regexp_matches(citext, citext) RETURNS SETOF text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 1
    AS 'SELECT pg_catalog.regexp_matches($1::pg_catalog.text, $2::pg_catalog.text, ''i'')';
CREATE FUNCTION regexp_matches(citext, citext, text) RETURNS SETOF text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 10
    AS 'SELECT pg_catalog.regexp_matches($1::pg_catalog.text, $2::pg_catalog.text, CASE WHEN pg_catalog.strpos($3, ''c'') = 0 THEN $3 || ''i'' ELSE $3 END)';
CREATE FUNCTION regexp_split_to_array(citext, citext) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_split_to_array($1::pg_catalog.text, $2::pg_catalog.text, ''i'')';
CREATE FUNCTION regexp_split_to_array(citext, citext, text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_split_to_array($1::pg_catalog.text, $2::pg_catalog.text, CASE WHEN pg_catalog.strpos($3, ''c'') = 0 THEN $3 || ''i'' ELSE $3 END)';
CREATE FUNCTION regexp_split_to_table(citext, citext) RETURNS SETOF text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_split_to_table($1::pg_catalog.text, $2::pg_catalog.text, ''i'')';
CREATE FUNCTION regexp_split_to_table(citext, citext, text) RETURNS SETOF text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_split_to_table($1::pg_catalog.text, $2::pg_catalog.text, CASE WHEN pg_catalog.strpos($3, ''c'') = 0 THEN $3 || ''i'' ELSE $3 END)';
CREATE FUNCTION regexp_replace(citext, citext, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_replace($1::pg_catalog.text, $2::pg_catalog.text, $3, ''i'')';
CREATE FUNCTION regexp_replace(citext, citext, text, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_replace($1::pg_catalog.text, $2::pg_catalog.text, $3, CASE WHEN pg_catalog.strpos($4, ''c'') = 0 THEN $4 || ''i'' ELSE $4 END)';
CREATE FUNCTION strpos(citext, citext) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.strpos(pg_catalog.lower($1::pg_catalog.text), pg_catalog.lower($2::pg_catalog.text))';
CREATE FUNCTION replace(citext, citext, citext) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.regexp_replace($1::pg_catalog.text, pg_catalog.regexp_replace($2::pg_catalog.text, ''([^a-zA-Z_0-9])'', ''\\\1'', ''g''), $3::pg_catalog.text, ''gi'')';
CREATE FUNCTION split_part(citext, citext, int4) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT (pg_catalog.regexp_split_to_array($1::pg_catalog.text, pg_catalog.regexp_replace($2::pg_catalog.text, ''([^a-zA-Z_0-9])'', ''\\\1'', ''g''), ''i''))[$3]';
CREATE FUNCTION translate(citext, citext, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.translate(pg_catalog.translate($1::pg_catalog.text, pg_catalog.lower($2::pg_catalog.text), $3), pg_catalog.upper($2::pg_catalog.text), $3)';
