"""GRANT, REVOKE and ALTER DEFAULT PRIVILEGES: `grants` carries them out, `targets` finds what they are about, and
`dropped_roles` says what becomes of privileges when a role goes.

What an object's privileges become is worked out in `adapter.access.granting`. May import the definitions below and
`adapter.access`. Read `grants` first.
"""
