CREATE FUNCTION pg_stat_statements_reset(userid oid DEFAULT 0, dbid oid DEFAULT 0, queryid int8 DEFAULT 0) RETURNS void
    LANGUAGE sql VOLATILE STRICT PARALLEL SAFE SECURITY DEFINER
    AS 'SELECT tidegate.reset_statement_statistics($1, $2, $3)';
CREATE FUNCTION pg_stat_statements(showtext bool,
    OUT userid oid, OUT dbid oid, OUT toplevel bool, OUT queryid int8, OUT query text, OUT plans int8, OUT
    total_plan_time float8, OUT min_plan_time float8, OUT max_plan_time float8, OUT mean_plan_time float8, OUT
    stddev_plan_time float8, OUT calls int8, OUT total_exec_time float8, OUT min_exec_time float8, OUT
    max_exec_time float8, OUT mean_exec_time float8, OUT stddev_exec_time float8, OUT rows int8, OUT
    shared_blks_hit int8, OUT shared_blks_read int8, OUT shared_blks_dirtied int8, OUT shared_blks_written
    int8, OUT local_blks_hit int8, OUT local_blks_read int8, OUT local_blks_dirtied int8, OUT
    local_blks_written int8, OUT temp_blks_read int8, OUT temp_blks_written int8, OUT blk_read_time float8,
    OUT blk_write_time float8, OUT temp_blk_read_time float8, OUT temp_blk_write_time float8, OUT wal_records
    int8, OUT wal_fpi int8, OUT wal_bytes numeric, OUT jit_functions int8, OUT jit_generation_time float8, OUT
    jit_inlining_count int8, OUT jit_inlining_time float8, OUT jit_optimization_count int8, OUT
    jit_optimization_time float8, OUT jit_emission_count int8, OUT jit_emission_time float8)
    RETURNS SETOF record LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    AS 'SELECT
        userid, dbid, toplevel, queryid, CASE WHEN $1 THEN query END, 0::int8, 0::float8, 0::float8,
        0::float8, 0::float8, 0::float8, calls, total_exec_time, min_exec_time, max_exec_time, mean_exec_time,
        stddev_exec_time, rows, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
        0::int8, 0::int8, 0::float8, 0::float8, 0::float8, 0::float8, 0::int8, 0::int8, 0::numeric, 0::int8,
        0::float8, 0::int8, 0::float8, 0::int8, 0::float8, 0::int8, 0::float8
        FROM tidegate.statement_statistics';
CREATE FUNCTION pg_stat_statements_info(OUT dealloc int8, OUT stats_reset timestamptz)
    RETURNS record LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
    AS 'SELECT dealloc, stats_reset FROM tidegate.statement_statistics_info';
CREATE VIEW pg_stat_statements AS SELECT * FROM pg_stat_statements(true);
CREATE VIEW pg_stat_statements_info AS SELECT * FROM pg_stat_statements_info();
GRANT SELECT ON pg_stat_statements, pg_stat_statements_info TO PUBLIC;
REVOKE ALL ON FUNCTION pg_stat_statements_reset(oid, oid, int8) FROM PUBLIC;
