"""Row-level security: CREATE, ALTER and DROP POLICY, and ALTER TABLE ... ROW LEVEL SECURITY.

May import `definitions.common`, the rooms below and the planner. Read `changes` first.
"""
