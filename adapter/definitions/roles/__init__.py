"""Definitions of roles: their attributes, memberships and stored settings, what they own when they go.

May import `definitions.common`, `access` and what is below. Read `attributes` first.
"""
