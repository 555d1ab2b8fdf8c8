"""GRANT, REVOKE and ALTER DEFAULT PRIVILEGES: `grants` carries them out, `targets` finds what they are about.

What an object's privileges become is worked out in `adapter.access.granting`."""
