CREATE SCHEMA tidegate;
COMMENT ON SCHEMA tidegate IS 'what PostgreSQL has no place for: the server seen from inside, and its own functions';
GRANT USAGE ON SCHEMA tidegate TO PUBLIC;
