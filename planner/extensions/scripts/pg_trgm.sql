CREATE FUNCTION show_trgm(text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.trigrams($1)';
CREATE FUNCTION similarity(text, text) RETURNS float4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.trigram_similarity($1, $2)';
CREATE FUNCTION similarity_dist(text, text) RETURNS float4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT 1::float4 - tidegate.trigram_similarity($1, $2)';
CREATE FUNCTION word_similarity(text, text) RETURNS float4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.trigram_word_similarity($1, $2, false)';
CREATE FUNCTION strict_word_similarity(text, text) RETURNS float4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.trigram_word_similarity($1, $2, true)';
