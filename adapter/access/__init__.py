"""Who may do what: roles and their memberships (`roles`, `membership`), and who owns what (`ownership`).

Every function here reads a catalog and knows no session: callers say which role asks, mostly the session's current one
(`SettingValues.identity`). May import `settings` and the planner. Read `membership` first.
"""
