"""SUBSCRIBE: what a query gives, and then every change of that, in the order of CSNs.

`feed` makes the rows, `result_changes` the difference of two results, `change_cursor` lets FETCH wait for rows. May
import `queries` and what is below it; `adapter.statements.subscribe` has the statement. Read `feed` first.
"""
