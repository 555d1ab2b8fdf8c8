"""COPY from and to the client. May import the other rooms of `changes`. Read `copy_in` first."""
