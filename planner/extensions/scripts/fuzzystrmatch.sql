CREATE FUNCTION levenshtein(text, text) RETURNS int LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.levenshtein($1, $2, 1, 1, 1)';
CREATE FUNCTION levenshtein(text, text, int, int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.levenshtein($1, $2, $3, $4, $5)';
CREATE FUNCTION soundex(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.soundex($1)';
CREATE FUNCTION text_soundex(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.soundex($1)';
CREATE FUNCTION difference(text, text) RETURNS int LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT (substr(tidegate.soundex($1), 1, 1) = substr(tidegate.soundex($2), 1, 1))::int
             + (substr(tidegate.soundex($1), 2, 1) = substr(tidegate.soundex($2), 2, 1))::int
             + (substr(tidegate.soundex($1), 3, 1) = substr(tidegate.soundex($2), 3, 1))::int
             + (substr(tidegate.soundex($1), 4, 1) = substr(tidegate.soundex($2), 4, 1))::int';
