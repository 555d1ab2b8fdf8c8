"""What functions in FROM become where they are queries of their own: records of JSON, ROWS FROM of functions of users.

May import `calls`, `resolution`, the IR and all below. Read `rows_from` first.
"""
