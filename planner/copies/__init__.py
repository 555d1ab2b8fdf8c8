"""COPY between tables and files, as statements over rows.

May import `definitions` and what stands below. Read `copy_texts` first.
"""
