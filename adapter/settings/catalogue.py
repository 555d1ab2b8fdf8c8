"""The settings that sessions know: PostgreSQL's that clients read or set, and Tidegate's own.

Names, types, units, ranges, contexts and descriptions are those of PostgreSQL 15's pg_settings. A default that
differs on purpose (server_version, default_transaction_isolation, jit) says what this server does.
"""

from __future__ import annotations

from msgspec import Struct


class Setting(Struct, frozen=True, kw_only=True):
    """One setting. `type` is bool, integer, real, string or enum; `context` as pg_settings has it (internal,
    postmaster, sighup, superuser, user, ...). `unit` is the unit of a plain number: kB, ms, s, min.

    `reported` settings go to the client as ParameterStatus; `hidden` ones are not in SHOW ALL; `list_value` ones take
    a comma-separated list of names.
    """

    name: str
    type: str
    default: str
    context: str
    category: str
    description: str
    unit: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    values: tuple[str, ...] = ()
    reported: bool = False
    hidden: bool = False
    list_value: bool = False


# Two lines a setting: name|type|context|default|unit|minimum..maximum|values|flags|category, then the description.
_TABLE = """\
application_name|string|user||-|-|-|reported|Reporting and Logging / What to Log
    Sets the application name to be reported in statistics and logs.
array_nulls|bool|user|on|-|-|-|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    Enable input of NULL elements in arrays.
authentication_timeout|integer|sighup|60|s|1..600|-|-|Connections and Authentication / Authentication
    Sets the maximum allowed time to complete client authentication.
backend_flush_after|integer|user|0|8kB|0..256|-|-|Resource Usage / Asynchronous Behavior
    Number of pages after which previously performed writes are flushed to disk.
backslash_quote|enum|user|safe_encoding|-|-|safe_encoding,on,off|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    Sets whether "\\'" is allowed in string literals.
bytea_output|enum|user|hex|-|-|escape,hex|-|Client Connection Defaults / Statement Behavior
    Sets the output format for bytea.
check_function_bodies|bool|user|on|-|-|-|-|Client Connection Defaults / Statement Behavior
    Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.
client_connection_check_interval|integer|user|0|ms|0..2147483647|-|-|Connections and Authentication / Connection Settings
    Sets the time interval between checks for disconnection while running queries.
client_encoding|string|user|UTF8|-|-|-|reported|Client Connection Defaults / Locale and Formatting
    Sets the client's character set encoding.
client_min_messages|enum|user|notice|-|-|debug5,debug4,debug3,debug2,debug1,log,notice,warning,error|-|Client Connection Defaults / Statement Behavior
    Sets the message levels that are sent to the client.
compute_query_id|enum|superuser|auto|-|-|auto,regress,on,off|-|Statistics / Monitoring
    Enables in-core computation of query identifiers.
constraint_exclusion|enum|user|partition|-|-|partition,on,off|-|Query Tuning / Other Planner Options
    Enables the planner to use constraints to optimize queries.
cpu_index_tuple_cost|real|user|0.005|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of processing each index entry during an index scan.
cpu_operator_cost|real|user|0.0025|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of processing each operator or function call.
cpu_tuple_cost|real|user|0.01|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of processing each tuple (row).
cursor_tuple_fraction|real|user|0.1|-|0..1|-|-|Query Tuning / Other Planner Options
    Sets the planner's estimate of the fraction of a cursor's rows that will be retrieved.
DateStyle|string|user|ISO, MDY|-|-|-|reported,list_value|Client Connection Defaults / Locale and Formatting
    Sets the display format for date and time values.
deadlock_timeout|integer|superuser|1000|ms|1..2147483647|-|-|Lock Management
    Sets the time to wait on a lock before checking for deadlock.
debug_pretty_print|bool|user|on|-|-|-|-|Reporting and Logging / What to Log
    Indents parse and plan tree displays.
debug_print_parse|bool|user|off|-|-|-|-|Reporting and Logging / What to Log
    Logs each query's parse tree.
debug_print_plan|bool|user|off|-|-|-|-|Reporting and Logging / What to Log
    Logs each query's execution plan.
debug_print_rewritten|bool|user|off|-|-|-|-|Reporting and Logging / What to Log
    Logs each query's rewritten parse tree.
default_statistics_target|integer|user|100|-|1..10000|-|-|Query Tuning / Other Planner Options
    Sets the default statistics target.
default_table_access_method|string|user|heap|-|-|-|-|Client Connection Defaults / Statement Behavior
    Sets the default table access method for new tables.
default_tablespace|string|user||-|-|-|-|Client Connection Defaults / Statement Behavior
    Sets the default tablespace to create tables and indexes in.
default_text_search_config|string|user|pg_catalog.simple|-|-|-|-|Client Connection Defaults / Locale and Formatting
    Sets default text search configuration.
default_toast_compression|enum|user|pglz|-|-|pglz,lz4|-|Client Connection Defaults / Statement Behavior
    Sets the default compression method for compressible values.
default_transaction_deferrable|bool|user|off|-|-|-|-|Client Connection Defaults / Statement Behavior
    Sets the default deferrable status of new transactions.
default_transaction_isolation|enum|user|serializable|-|-|serializable,repeatable read,read committed,read uncommitted|-|Client Connection Defaults / Statement Behavior
    Sets the transaction isolation level of each new transaction.
default_transaction_read_only|bool|user|off|-|-|-|reported|Client Connection Defaults / Statement Behavior
    Sets the default read-only status of new transactions.
default_with_oids|bool|user|off|-|-|-|hidden|Version and Platform Compatibility / Previous PostgreSQL Versions
    WITH OIDS is no longer supported; this can only be false.
dialect|enum|user|postgres|-|-|postgres,spark,databricks,hive,duckdb,trino,mysql,snowflake,bigquery,tsql|-|Tidegate / Dialects
    Sets the dialect of SQL that statements are written in.
effective_cache_size|integer|user|524288|8kB|1..2147483647|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's assumption about the total size of the data caches.
effective_io_concurrency|integer|user|1|-|0..1000|-|-|Resource Usage / Asynchronous Behavior
    Number of simultaneous requests that can be handled efficiently by the disk subsystem.
enable_async_append|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of async append plans.
enable_bitmapscan|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of bitmap-scan plans.
enable_gathermerge|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of gather merge plans.
enable_hashagg|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of hashed aggregation plans.
enable_hashjoin|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of hash join plans.
enable_incremental_sort|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of incremental sort steps.
enable_indexonlyscan|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of index-only-scan plans.
enable_indexscan|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of index-scan plans.
enable_material|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of materialization.
enable_memoize|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of memoization.
enable_mergejoin|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of merge join plans.
enable_nestloop|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of nested-loop join plans.
enable_parallel_append|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of parallel append plans.
enable_parallel_hash|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of parallel hash plans.
enable_partition_pruning|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables plan-time and execution-time partition pruning.
enable_partitionwise_aggregate|bool|user|off|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables partitionwise aggregation and grouping.
enable_partitionwise_join|bool|user|off|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables partitionwise join.
enable_seqscan|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of sequential-scan plans.
enable_sort|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of explicit sort steps.
enable_tidscan|bool|user|on|-|-|-|-|Query Tuning / Planner Method Configuration
    Enables the planner's use of TID scan plans.
engine|enum|user|auto|-|-|auto,local,spark|-|Tidegate / Engines
    Selects the engine that runs queries.
escape_string_warning|bool|user|on|-|-|-|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    Warn about backslash escapes in ordinary string literals.
exit_on_error|bool|user|off|-|-|-|-|Error Handling
    Terminate session on any error.
extra_float_digits|integer|user|1|-|-15..3|-|-|Client Connection Defaults / Locale and Formatting
    Sets the number of digits displayed for floating-point values.
fast_path_limit|integer|user|32768|kB|-1..2147483647|-|-|Tidegate / Engines
    Sets the size of pruned snapshots up to which a read runs in process; -1 lets the expected times decide.
force_parallel_mode|enum|user|off|-|-|off,on,regress|-|Developer Options
    Forces use of parallel query facilities.
from_collapse_limit|integer|user|8|-|1..2147483647|-|-|Query Tuning / Other Planner Options
    Sets the FROM-list size beyond which subqueries are not collapsed.
geqo|bool|user|on|-|-|-|-|Query Tuning / Genetic Query Optimizer
    Enables genetic query optimization.
geqo_effort|integer|user|5|-|1..10|-|-|Query Tuning / Genetic Query Optimizer
    GEQO: effort is used to set the default for other GEQO parameters.
geqo_generations|integer|user|0|-|0..2147483647|-|-|Query Tuning / Genetic Query Optimizer
    GEQO: number of iterations of the algorithm.
geqo_pool_size|integer|user|0|-|0..2147483647|-|-|Query Tuning / Genetic Query Optimizer
    GEQO: number of individuals in the population.
geqo_seed|real|user|0|-|0..1|-|-|Query Tuning / Genetic Query Optimizer
    GEQO: seed for random path selection.
geqo_selection_bias|real|user|2|-|1.5..2|-|-|Query Tuning / Genetic Query Optimizer
    GEQO: selective pressure within the population.
geqo_threshold|integer|user|12|-|2..2147483647|-|-|Query Tuning / Genetic Query Optimizer
    Sets the threshold of FROM items beyond which GEQO is used.
gin_fuzzy_search_limit|integer|user|0|-|0..2147483647|-|-|Client Connection Defaults / Other Defaults
    Sets the maximum allowed result for exact search by GIN.
gin_pending_list_limit|integer|user|4096|kB|64..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum size of the pending list for GIN index.
hash_mem_multiplier|real|user|2|-|1..1000|-|-|Resource Usage / Memory
    Multiple of work_mem to use for hash tables.
hba_file|string|postmaster||-|-|-|-|File Locations
    Sets the server's "hba" configuration file.
ident_file|string|postmaster||-|-|-|-|File Locations
    Sets the server's "ident" configuration file.
idle_in_transaction_session_timeout|integer|user|0|ms|0..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum allowed idle time between queries, when in a transaction.
idle_session_timeout|integer|user|0|ms|0..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum allowed idle time between queries, when not in a transaction.
in_hot_standby|bool|internal|off|-|-|-|reported|Preset Options
    Shows whether hot standby is currently active.
integer_datetimes|bool|internal|on|-|-|-|reported|Preset Options
    Shows whether datetimes are integer based.
IntervalStyle|enum|user|postgres|-|-|postgres,postgres_verbose,sql_standard,iso_8601|reported|Client Connection Defaults / Locale and Formatting
    Sets the display format for interval values.
is_superuser|bool|internal|on|-|-|-|reported,hidden|Reporting and Logging / What to Log
    Shows whether the current user is a superuser.
jit|bool|user|off|-|-|-|-|Query Tuning / Other Planner Options
    Allow JIT compilation.
jit_above_cost|real|user|100000|-|-1..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Perform JIT compilation if query is more expensive.
jit_debugging_support|bool|superuser-backend|off|-|-|-|-|Developer Options
    Register JIT-compiled functions with debugger.
jit_dump_bitcode|bool|superuser|off|-|-|-|-|Developer Options
    Write out LLVM bitcode to facilitate JIT debugging.
jit_expressions|bool|user|on|-|-|-|-|Developer Options
    Allow JIT compilation of expressions.
jit_inline_above_cost|real|user|500000|-|-1..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Perform JIT inlining if query is more expensive.
jit_optimize_above_cost|real|user|500000|-|-1..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Optimize JIT-compiled functions if query is more expensive.
jit_profiling_support|bool|superuser-backend|off|-|-|-|-|Developer Options
    Register JIT-compiled functions with perf profiler.
jit_tuple_deforming|bool|user|on|-|-|-|-|Developer Options
    Allow JIT compilation of tuple deforming.
join_collapse_limit|integer|user|8|-|1..2147483647|-|-|Query Tuning / Other Planner Options
    Sets the FROM-list size beyond which JOIN constructs are not flattened.
lc_collate|string|internal|C|-|-|-|-|Preset Options
    Shows the collation order locale.
lc_ctype|string|internal|C.UTF-8|-|-|-|-|Preset Options
    Shows the character classification and case conversion locale.
lc_messages|string|superuser|C|-|-|-|-|Client Connection Defaults / Locale and Formatting
    Sets the language in which messages are displayed.
lc_monetary|string|user|C|-|-|-|-|Client Connection Defaults / Locale and Formatting
    Sets the locale for formatting monetary amounts.
lc_numeric|string|user|C|-|-|-|-|Client Connection Defaults / Locale and Formatting
    Sets the locale for formatting numbers.
lc_time|string|user|C|-|-|-|-|Client Connection Defaults / Locale and Formatting
    Sets the locale for formatting date and time values.
lo_compat_privileges|bool|superuser|off|-|-|-|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    Enables backward compatibility mode for privilege checks on large objects.
lock_timeout|integer|user|0|ms|0..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum allowed duration of any wait for a lock.
log_connections|bool|superuser-backend|off|-|-|-|-|Reporting and Logging / What to Log
    Logs each successful connection.
log_disconnections|bool|superuser-backend|off|-|-|-|-|Reporting and Logging / What to Log
    Logs end of a session, including duration.
log_duration|bool|superuser|off|-|-|-|-|Reporting and Logging / What to Log
    Logs the duration of each completed SQL statement.
log_error_verbosity|enum|superuser|default|-|-|terse,default,verbose|-|Reporting and Logging / What to Log
    Sets the verbosity of logged messages.
log_executor_stats|bool|superuser|off|-|-|-|-|Statistics / Monitoring
    Writes executor performance statistics to the server log.
log_line_prefix|string|sighup||-|-|-|-|Reporting and Logging / What to Log
    Controls information prefixed to each log line.
log_lock_waits|bool|superuser|off|-|-|-|-|Reporting and Logging / What to Log
    Logs long lock waits.
log_min_duration_sample|integer|superuser|-1|ms|-1..2147483647|-|-|Reporting and Logging / When to Log
    Sets the minimum execution time above which a sample of statements will be logged. Sampling is determined by log_statement_sample_rate.
log_min_duration_statement|integer|superuser|-1|ms|-1..2147483647|-|-|Reporting and Logging / When to Log
    Sets the minimum execution time above which all statements will be logged.
log_min_error_statement|enum|superuser|error|-|-|debug5,debug4,debug3,debug2,debug1,info,notice,warning,error,log,fatal,panic|-|Reporting and Logging / When to Log
    Causes all statements generating error at or above this level to be logged.
log_min_messages|enum|superuser|warning|-|-|debug5,debug4,debug3,debug2,debug1,info,notice,warning,error,log,fatal,panic|-|Reporting and Logging / When to Log
    Sets the message levels that are logged.
log_parameter_max_length|integer|superuser|-1|B|-1..1073741823|-|-|Reporting and Logging / What to Log
    Sets the maximum length in bytes of data logged for bind parameter values when logging statements.
log_parameter_max_length_on_error|integer|user|0|B|-1..1073741823|-|-|Reporting and Logging / What to Log
    Sets the maximum length in bytes of data logged for bind parameter values when logging statements, on error.
log_parser_stats|bool|superuser|off|-|-|-|-|Statistics / Monitoring
    Writes parser performance statistics to the server log.
log_planner_stats|bool|superuser|off|-|-|-|-|Statistics / Monitoring
    Writes planner performance statistics to the server log.
log_replication_commands|bool|superuser|off|-|-|-|-|Reporting and Logging / What to Log
    Logs each replication command.
log_statement|enum|superuser|none|-|-|none,ddl,mod,all|-|Reporting and Logging / What to Log
    Sets the type of statements logged.
log_statement_sample_rate|real|superuser|1|-|0..1|-|-|Reporting and Logging / When to Log
    Fraction of statements exceeding log_min_duration_sample to be logged.
log_statement_stats|bool|superuser|off|-|-|-|-|Statistics / Monitoring
    Writes cumulative performance statistics to the server log.
log_temp_files|integer|superuser|-1|kB|-1..2147483647|-|-|Reporting and Logging / What to Log
    Log the use of temporary files larger than this number of kilobytes.
log_transaction_sample_rate|real|superuser|0|-|0..1|-|-|Reporting and Logging / When to Log
    Sets the fraction of transactions from which to log all statements.
logical_decoding_work_mem|integer|user|65536|kB|64..2147483647|-|-|Resource Usage / Memory
    Sets the maximum memory to be used for logical decoding.
maintenance_io_concurrency|integer|user|10|-|0..1000|-|-|Resource Usage / Asynchronous Behavior
    A variant of effective_io_concurrency that is used for maintenance work.
maintenance_work_mem|integer|user|65536|kB|1024..2147483647|-|-|Resource Usage / Memory
    Sets the maximum memory to be used for maintenance operations.
max_connections|integer|postmaster|200|-|1..262143|-|-|Connections and Authentication / Connection Settings
    Sets the maximum number of concurrent connections.
max_function_args|integer|internal|100|-|100..100|-|-|Preset Options
    Shows the maximum number of function arguments.
max_identifier_length|integer|internal|63|-|63..63|-|-|Preset Options
    Shows the maximum identifier length.
max_index_keys|integer|internal|32|-|32..32|-|-|Preset Options
    Shows the maximum number of index keys.
max_parallel_maintenance_workers|integer|user|2|-|0..1024|-|-|Resource Usage / Asynchronous Behavior
    Sets the maximum number of parallel processes per maintenance operation.
max_parallel_workers|integer|user|8|-|0..1024|-|-|Resource Usage / Asynchronous Behavior
    Sets the maximum number of parallel workers that can be active at one time.
max_parallel_workers_per_gather|integer|user|2|-|0..1024|-|-|Resource Usage / Asynchronous Behavior
    Sets the maximum number of parallel processes per executor node.
max_prepared_transactions|integer|postmaster|0|-|0..262143|-|-|Resource Usage / Memory
    Sets the maximum number of simultaneously prepared transactions.
max_stack_depth|integer|superuser|100|kB|100..2147483647|-|-|Resource Usage / Memory
    Sets the maximum stack depth, in kilobytes.
min_parallel_index_scan_size|integer|user|64|8kB|0..715827882|-|-|Query Tuning / Planner Cost Constants
    Sets the minimum amount of index data for a parallel scan.
min_parallel_table_scan_size|integer|user|1024|8kB|0..715827882|-|-|Query Tuning / Planner Cost Constants
    Sets the minimum amount of table data for a parallel scan.
parallel_leader_participation|bool|user|on|-|-|-|-|Resource Usage / Asynchronous Behavior
    Controls whether Gather and Gather Merge also run subplans.
parallel_setup_cost|real|user|1000|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of starting up worker processes for parallel query.
parallel_tuple_cost|real|user|0.1|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of passing each tuple (row) from worker to leader backend.
password_encryption|enum|user|scram-sha-256|-|-|md5,scram-sha-256|-|Connections and Authentication / Authentication
    Chooses the algorithm for encrypting passwords.
pg_stat_statements.max|integer|postmaster|5000|-|100..1073741823|-|-|Customized Options
    Sets the maximum number of statements tracked by pg_stat_statements.
pg_stat_statements.save|bool|sighup|off|-|-|-|-|Customized Options
    Save pg_stat_statements statistics across server shutdowns.
pg_stat_statements.track|enum|superuser|top|-|-|none,top,all|-|Customized Options
    Selects which statements are tracked by pg_stat_statements.
pg_stat_statements.track_planning|bool|superuser|off|-|-|-|-|Customized Options
    Selects whether planning duration is tracked by pg_stat_statements.
pg_stat_statements.track_utility|bool|superuser|on|-|-|-|-|Customized Options
    Selects whether utility commands are tracked by pg_stat_statements.
plan_cache_mode|enum|user|auto|-|-|auto,force_generic_plan,force_custom_plan|-|Query Tuning / Other Planner Options
    Controls the planner's selection of custom or generic plan.
quote_all_identifiers|bool|user|off|-|-|-|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    When generating SQL fragments, quote all identifiers.
random_page_cost|real|user|4|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of a nonsequentially fetched disk page.
recursive_worktable_factor|real|user|10|-|0.001..1e+06|-|-|Query Tuning / Other Planner Options
    Sets the planner's estimate of the average size of a recursive query's working table.
restrict_nonsystem_relation_kind|string|user||-|-|-|-|Client Connection Defaults / Statement Behavior
    Prohibits access to non-system relations of specified kinds.
role|string|user|none|-|-|-|hidden|Ungrouped
    Sets the current role.
role_memory_limit|integer|superuser|-1|kB|-1..2147483647|-|-|Tidegate / Engines
    Sets the memory that all statements of a role have together on the local engine; -1 means that of their classes.
rewrite_group_size|integer|user|4194304|kB|1..2147483647|-|-|Tidegate / Engines
    Sets the size of the files that VACUUM (FULL) rewrites together, in one order.
row_security|bool|user|on|-|-|-|-|Client Connection Defaults / Statement Behavior
    Enable row security.
search_path|string|user|"$user", public|-|-|-|list_value|Client Connection Defaults / Statement Behavior
    Sets the schema search order for names that are not schema-qualified.
seed|string|user|unavailable|-|-|-|hidden|Ungrouped
    Sets the seed for random-number generation.
seq_page_cost|real|user|1|-|0..1.79769e+308|-|-|Query Tuning / Planner Cost Constants
    Sets the planner's estimate of the cost of a sequentially fetched disk page.
server_encoding|string|internal|UTF8|-|-|-|reported|Preset Options
    Shows the server (database) character set encoding.
server_version|string|internal|15.18 (Tidegate 0.1.0)|-|-|-|reported|Preset Options
    Shows the server version.
server_version_num|integer|internal|150018|-|150018..150018|-|-|Preset Options
    Shows the server version as an integer.
session_authorization|string|user||-|-|-|reported,hidden|Reporting and Logging / What to Log
    Sets the session user name.
session_replication_role|enum|superuser|origin|-|-|origin,replica,local|-|Client Connection Defaults / Statement Behavior
    Sets the session's behavior for triggers and rewrite rules.
spark.scheduler.pool|string|user||-|-|-|-|Tidegate / Spark
    Sets the pool of Spark's scheduler; empty is that of a statement's class.
spark.sql.adaptive.advisoryPartitionSizeInBytes|integer|user|0|kB|0..2147483647|-|-|Tidegate / Spark
    Sets the size of partitions that adaptive execution aims at; 0 is Spark's own.
spark.sql.adaptive.coalescePartitions.enabled|enum|user|auto|-|-|auto,on,off|-|Tidegate / Spark
    Lets adaptive execution join small partitions; auto is Spark's own.
spark.sql.adaptive.enabled|enum|user|auto|-|-|auto,on,off|-|Tidegate / Spark
    Lets Spark plan again by the sizes that it meets; auto goes by the size of what a statement reads.
spark.sql.adaptive.skewJoin.enabled|enum|user|auto|-|-|auto,on,off|-|Tidegate / Spark
    Lets adaptive execution divide partitions that are much larger than others; auto is Spark's own.
spark.sql.autoBroadcastJoinThreshold|integer|user|0|kB|-1..2147483647|-|-|Tidegate / Spark
    Sets the size up to which tables are sent to all executors; -1 never, 0 goes by the size of what a statement reads.
spark.sql.codegen.wholeStage|enum|user|auto|-|-|auto,on,off|-|Tidegate / Spark
    Lets Spark compile statements; auto goes by the size of what a statement reads.
spark.sql.files.maxPartitionBytes|integer|user|0|kB|0..2147483647|-|-|Tidegate / Spark
    Sets how much of files a task reads; 0 is Spark's own.
spark.sql.files.minPartitionNum|integer|user|0|-|0..100000|-|-|Tidegate / Spark
    Sets how many tasks read files at least; 0 goes by the size of what a statement reads.
spark.sql.join.preferSortMergeJoin|enum|user|auto|-|-|auto,on,off|-|Tidegate / Spark
    Prefers joins by sorting over those by hashing; auto is Spark's own.
spark.sql.shuffle.partitions|integer|user|0|-|0..100000|-|-|Tidegate / Spark
    Sets the number of partitions after an exchange; 0 goes by the size of what a statement reads.
ssl|bool|sighup|off|-|-|-|-|Connections and Authentication / SSL
    Enables SSL connections.
ssl_ca_file|string|sighup||-|-|-|-|Connections and Authentication / SSL
    Location of the SSL certificate authority file.
ssl_cert_file|string|sighup||-|-|-|-|Connections and Authentication / SSL
    Location of the SSL server certificate file.
ssl_key_file|string|sighup||-|-|-|-|Connections and Authentication / SSL
    Location of the SSL server private key file.
standard_conforming_strings|bool|user|on|-|-|-|reported|Version and Platform Compatibility / Previous PostgreSQL Versions
    Causes '...' strings to treat backslashes literally.
statement_timeout|integer|user|0|ms|0..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum allowed duration of any statement.
stats_fetch_consistency|enum|user|cache|-|-|none,cache,snapshot|-|Statistics / Cumulative Query and Index Statistics
    Sets the consistency of accesses to statistics data.
synchronize_seqscans|bool|user|on|-|-|-|-|Version and Platform Compatibility / Previous PostgreSQL Versions
    Enable synchronized sequential scans.
synchronous_commit|enum|user|on|-|-|local,remote_write,remote_apply,on,off|-|Write-Ahead Log / Settings
    Sets the current transaction's synchronization level.
synchronous_visibility|bool|user|on|-|-|-|-|Tidegate / Transactions
    Sets whether a commit is answered only once other sessions see it.
tcp_keepalives_count|integer|user|0|-|0..2147483647|-|-|Connections and Authentication / Connection Settings
    Maximum number of TCP keepalive retransmits.
tcp_keepalives_idle|integer|user|0|s|0..2147483647|-|-|Connections and Authentication / Connection Settings
    Time between issuing TCP keepalives.
tcp_keepalives_interval|integer|user|0|s|0..2147483647|-|-|Connections and Authentication / Connection Settings
    Time between TCP keepalive retransmits.
tcp_user_timeout|integer|user|0|ms|0..2147483647|-|-|Connections and Authentication / Connection Settings
    TCP user timeout.
temp_buffers|integer|user|1024|8kB|100..1073741823|-|-|Resource Usage / Memory
    Sets the maximum number of temporary buffers used by each session.
temp_file_limit|integer|superuser|-1|kB|-1..2147483647|-|-|Resource Usage / Disk
    Limits the total size of all temporary files used by each process.
temp_tablespaces|string|user||-|-|-|list_value|Client Connection Defaults / Statement Behavior
    Sets the tablespace(s) to use for temporary tables and sort files.
tidegate.as_of|string|user||-|-|-|-|Tidegate / Time Travel
    Sets the moment that is read, a CSN or a time; nothing is written while it is set.
TimeZone|string|user|UTC|-|-|-|reported|Client Connection Defaults / Locale and Formatting
    Sets the time zone for displaying and interpreting time stamps.
timezone_abbreviations|string|user||-|-|-|-|Client Connection Defaults / Locale and Formatting
    Selects a file of time zone abbreviations.
track_activities|bool|superuser|on|-|-|-|-|Statistics / Cumulative Query and Index Statistics
    Collects information about executing commands.
track_counts|bool|superuser|on|-|-|-|-|Statistics / Cumulative Query and Index Statistics
    Collects statistics on database activity.
track_functions|enum|superuser|none|-|-|none,pl,all|-|Statistics / Cumulative Query and Index Statistics
    Collects function-level statistics on database activity.
track_io_timing|bool|superuser|off|-|-|-|-|Statistics / Cumulative Query and Index Statistics
    Collects timing statistics for database I/O activity.
track_wal_io_timing|bool|superuser|off|-|-|-|-|Statistics / Cumulative Query and Index Statistics
    Collects timing statistics for WAL I/O activity.
transaction_deferrable|bool|user|off|-|-|-|-|Client Connection Defaults / Statement Behavior
    Whether to defer a read-only serializable transaction until it can be executed with no possible serialization failures.
transaction_isolation|enum|user|serializable|-|-|serializable,repeatable read,read committed,read uncommitted|-|Client Connection Defaults / Statement Behavior
    Sets the current transaction's isolation level.
transaction_read_only|bool|user|off|-|-|-|-|Client Connection Defaults / Statement Behavior
    Sets the current transaction's read-only status.
transaction_timeout|integer|user|0|ms|0..2147483647|-|-|Client Connection Defaults / Statement Behavior
    Sets the maximum allowed duration of any transaction within a session (not a prepared transaction).
transform_null_equals|bool|user|off|-|-|-|-|Version and Platform Compatibility / Other Platforms and Clients
    Treats "expr=NULL" as "expr IS NULL".
unix_socket_directories|string|postmaster||-|-|-|-|Connections and Authentication / Connection Settings
    Sets the directories where Unix-domain sockets will be created.
use_materialized_views|bool|user|off|-|-|-|-|Tidegate / Materialized Views
    Answers queries by materialized views that are refreshed on commit, where these give the same rows.
vacuum_cost_delay|real|user|0|ms|0..100|-|-|Resource Usage / Cost-Based Vacuum Delay
    Vacuum cost delay in milliseconds.
vacuum_cost_limit|integer|user|200|-|1..10000|-|-|Resource Usage / Cost-Based Vacuum Delay
    Vacuum cost amount available before napping.
vacuum_cost_page_dirty|integer|user|20|-|0..10000|-|-|Resource Usage / Cost-Based Vacuum Delay
    Vacuum cost for a page dirtied by vacuum.
vacuum_cost_page_hit|integer|user|1|-|0..10000|-|-|Resource Usage / Cost-Based Vacuum Delay
    Vacuum cost for a page found in the buffer cache.
vacuum_cost_page_miss|integer|user|2|-|0..10000|-|-|Resource Usage / Cost-Based Vacuum Delay
    Vacuum cost for a page not found in the buffer cache.
vacuum_failsafe_age|integer|user|1600000000|-|0..2100000000|-|-|Client Connection Defaults / Statement Behavior
    Age at which VACUUM should trigger failsafe to avoid a wraparound outage.
vacuum_freeze_min_age|integer|user|50000000|-|0..1000000000|-|-|Client Connection Defaults / Statement Behavior
    Minimum age at which VACUUM should freeze a table row.
vacuum_freeze_table_age|integer|user|150000000|-|0..2000000000|-|-|Client Connection Defaults / Statement Behavior
    Age at which VACUUM should scan whole table to freeze tuples.
vacuum_multixact_failsafe_age|integer|user|1600000000|-|0..2100000000|-|-|Client Connection Defaults / Statement Behavior
    Multixact age at which VACUUM should trigger failsafe to avoid a wraparound outage.
vacuum_multixact_freeze_min_age|integer|user|5000000|-|0..1000000000|-|-|Client Connection Defaults / Statement Behavior
    Minimum age at which VACUUM should freeze a MultiXactId in a table row.
vacuum_multixact_freeze_table_age|integer|user|150000000|-|0..2000000000|-|-|Client Connection Defaults / Statement Behavior
    Multixact age at which VACUUM should scan whole table to freeze tuples.
workload_class|enum|user|auto|-|-|auto,catalog,point,interactive,heavy,load,maintenance|-|Tidegate / Engines
    Sets the class of statements, which says how much of the engines they get and who waits for whom.
work_mem|integer|user|4096|kB|64..2147483647|-|-|Resource Usage / Memory
    Sets the maximum memory to be used for query workspaces.
xmlbinary|enum|user|base64|-|-|base64,hex|-|Client Connection Defaults / Statement Behavior
    Sets how binary values are to be encoded in XML.
xmloption|enum|user|content|-|-|content,document|-|Client Connection Defaults / Statement Behavior
    Sets whether XML data in implicit parsing and serialization operations is to be considered as documents or content fragments.
"""  # noqa: E501  (a table reads best with one row a line)


def _parse(line: str, description: str) -> Setting:
    name, type_, context, default, unit, limits, values, flags, category = line.split("|")
    low, _, high = limits.partition("..")
    return Setting(
        name=name,
        type=type_,
        default=default,
        context=context,
        category=category,
        description=description.strip(),
        unit=None if unit == "-" else unit,
        minimum=float(low) if high else None,
        maximum=float(high) if high else None,
        values=() if values == "-" else tuple(values.split(",")),
        reported="reported" in flags,
        hidden="hidden" in flags,
        list_value="list_value" in flags,
    )


_LINES = _TABLE.splitlines()

SETTINGS: tuple[Setting, ...] = tuple(_parse(*pair) for pair in zip(_LINES[::2], _LINES[1::2], strict=True))

BY_NAME: dict[str, Setting] = {setting.name.lower(): setting for setting in SETTINGS}
"""Settings by lower-case name; look-up ignores case as PostgreSQL does."""
