"""Sessions and what carries out their statements: transactions, changes, definitions, the engines, system catalogs.

From the top down: `sessions` (a client's session, and the server that opens them), `statements` (which code carries a
statement out), `definitions`, `changes` and `queries` (that code), `execution` (what a running statement holds),
`transactions`, `engines`, `admission` (who computes when), `system_catalogs`, `plans`, `settings`. Each folder imports
from those after it. At the ground are five modules that anybody here may import: `results` and `execution_context`
(what goes up to the frontend and down to the engines), `store_errors`, `wall_clock`, `distinct_ids`. May import
`planner` and `storage`. Read `results` first, then `sessions.session`.
"""
