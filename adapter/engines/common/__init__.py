"""What both engines share: their contract, what they scan, the queries that they have lowered, what they give back.

May import `plans` and the ground of the adapter, and no engine. Read `engine` (the contract) first, then
`scan_sources`.
"""
