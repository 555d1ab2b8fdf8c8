"""Random sessions: many clients do at random all that the server has to offer, side by side, under an oracle.

    python -m tests.faults.random_sessions --rounds 10

Clients of `tests.faults.audit` run transactions of random statements (`mixed`), change definitions (`definitions`) and
look back (`past`), while others follow subscriptions, cancel, end and kill (`companions`). What must hold: nothing is
there that nobody was told of, and everything is that somebody was; sums are kept; views are their queries at every CSN;
subscriptions add up to snapshots; the past never changes; nobody gets an error that the work does not explain, and
nobody waits for ever.
"""
