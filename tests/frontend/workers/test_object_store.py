"""Workers whose consensus is in PostgreSQL and whose data is in an object store are one server as well: the tests of
workers, of locks and of rows on those stores."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.faults.test_stores import postgres, s3, stores_in
from tests.frontend.workers.test_locks import (
    test_a_deadlock_between_workers_ends_one_of_them,
    test_an_advisory_lock_is_waited_for_until_the_other_worker_lets_go,
    test_lock_timeout_and_cancel_end_the_waiting,
    test_shared_advisory_locks_are_shared_between_workers,
    test_table_locks_exclude_the_statements_of_the_other_worker,
    test_two_workers_whose_sessions_queue_for_one_lock_take_turns,
)
from tests.frontend.workers.test_rows import (
    READ_COMMITTED,
    test_a_key_that_the_other_worker_writes_is_waited_for,
    test_a_second_update_waits_and_goes_on_with_the_newest_version,
    test_higher_levels_fail_after_waiting,
    test_lock_timeout_and_deadlocks,
    test_no_block_of_read_committed_fails_because_somebody_was_first,
    test_rows_that_the_other_worker_has_are_skipped_or_refused,
    test_shared_row_locks_are_shared,
)
from tests.frontend.workers.test_workers import (
    TWO,
    pair,
    test_a_cancel_request_reaches_the_session_wherever_it_arrives,
    test_a_cancel_request_with_a_wrong_secret_is_ignored,
    test_clients_are_shared_out,
    test_notifications_reach_listeners_of_the_other_worker_in_order_and_only_once_committed,
    test_pg_cancel_backend_and_pg_terminate_backend_reach_the_other_worker,
    test_pg_stat_activity_and_pg_locks_are_those_of_all_workers,
    test_sequences_count_as_one_between_workers,
    test_settings_of_roles_and_databases_hold_for_new_sessions_of_every_worker,
    test_what_one_has_committed_the_next_statement_on_the_other_sees,
)
from tests.storage.store_servers import S3Server
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer, run_server

__all__ = [
    "pair",
    "postgres",
    "s3",
    "test_a_cancel_request_reaches_the_session_wherever_it_arrives",
    "test_a_cancel_request_with_a_wrong_secret_is_ignored",
    "test_a_deadlock_between_workers_ends_one_of_them",
    "test_a_key_that_the_other_worker_writes_is_waited_for",
    "test_a_second_update_waits_and_goes_on_with_the_newest_version",
    "test_an_advisory_lock_is_waited_for_until_the_other_worker_lets_go",
    "test_clients_are_shared_out",
    "test_higher_levels_fail_after_waiting",
    "test_lock_timeout_and_cancel_end_the_waiting",
    "test_lock_timeout_and_deadlocks",
    "test_no_block_of_read_committed_fails_because_somebody_was_first",
    "test_notifications_reach_listeners_of_the_other_worker_in_order_and_only_once_committed",
    "test_pg_cancel_backend_and_pg_terminate_backend_reach_the_other_worker",
    "test_pg_stat_activity_and_pg_locks_are_those_of_all_workers",
    "test_rows_that_the_other_worker_has_are_skipped_or_refused",
    "test_sequences_count_as_one_between_workers",
    "test_settings_of_roles_and_databases_hold_for_new_sessions_of_every_worker",
    "test_shared_advisory_locks_are_shared_between_workers",
    "test_shared_row_locks_are_shared",
    "test_table_locks_exclude_the_statements_of_the_other_worker",
    "test_two_workers_whose_sessions_queue_for_one_lock_take_turns",
    "test_what_one_has_committed_the_next_statement_on_the_other_sees",
]


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, s3: S3Server
) -> Iterator[TidegateServer]:
    """Two workers on stores that other hosts could share, with the tables of the tests of locks and of rows."""
    folder = tmp_path_factory.mktemp("workers-on-stores") / "data"
    with run_server(folder, arguments=(*TWO, *READ_COMMITTED, *stores_in(postgres, s3))) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (n int)")
            connection.execute("CREATE TABLE r (id int PRIMARY KEY, n int NOT NULL)")
            connection.execute("INSERT INTO r SELECT g, 0 FROM generate_series(1, 100) g")
            connection.execute("CREATE TABLE child (id int PRIMARY KEY, r int REFERENCES r)")
        yield running
