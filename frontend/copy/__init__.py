"""COPY: its message flow, and its text, csv and binary formats in both directions.

May import `decoding`, `protocol`, `encoding` and the storeys below. Read `streams` (the flow) first, then `text_input`
with its reference `lines`.
"""
