"""json, jsonb and jsonpath: their texts, read and printed as PostgreSQL does.

May import `errors` and `common_errors`. Read `json_text` first.
"""
