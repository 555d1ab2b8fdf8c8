"""The whole: opening an environment, committing to it, and what a process does in the background.

Here the parts of the folders below are made and joined, each given those that it uses; none of them knows the
`Environment`. May import `reading`, `upkeep`, `membership`, `transactions`, `catalog` and what lies below. Read
`environment` (what the storeys above use) first, then `opening` (how it is put together) and `committing`.
"""
