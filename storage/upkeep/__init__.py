"""Keeping an environment small and right: compaction, the removal of garbage and orphans, the audit of pruning.

May import `membership`, `transactions`, `shards` and what lies below. Read `maintenance` (a round of all of it) first,
then `compaction` (pure) with `compactor` (which runs it), `garbage` and `orphans`.
"""
