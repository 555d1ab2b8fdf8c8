CREATE FUNCTION digest(bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_digest($1, $2)';
CREATE FUNCTION digest(text, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_digest(convert_to($1, ''UTF8''), $2)';
CREATE FUNCTION hmac(bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_hmac($1, $2, $3)';
CREATE FUNCTION hmac(text, text, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_hmac(convert_to($1, ''UTF8''), convert_to($2, ''UTF8''), $3)';
CREATE FUNCTION crypt(text, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_crypt($1, $2)';
CREATE FUNCTION gen_salt(text) RETURNS text LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_salt($1, 0, gen_random_uuid()::text)';
CREATE FUNCTION gen_salt(text, int4) RETURNS text LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_salt($1, $2, gen_random_uuid()::text)';
CREATE FUNCTION gen_random_bytes(int4) RETURNS bytea LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_random_bytes($1, gen_random_uuid()::text)';
CREATE FUNCTION gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.gen_random_uuid()';
CREATE FUNCTION encrypt(bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_encrypt($1, $2, '''', $3)';
CREATE FUNCTION decrypt(bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_decrypt($1, $2, '''', $3)';
CREATE FUNCTION encrypt_iv(bytea, bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_encrypt($1, $2, $3, $4)';
CREATE FUNCTION decrypt_iv(bytea, bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT tidegate.pgcrypto_decrypt($1, $2, $3, $4)';
