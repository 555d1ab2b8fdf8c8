"""Bytes to statements: the PostgreSQL wire protocol, COPY, result encoding, the command line.

Reading order: `messages` and `codec` (bytes to messages, pure), `backend` (messages to bytes, pure), `startup` (what a
client asks for), `connection` (the rules of the message flow), `channel` and `server` (asyncio), `sessions` (what is
asked of the adapter). Values: `encoding` (Arrow to text and binary), `parameters`, `binary_values` and `text_input`
(the way back). COPY: `copy_streams` (its message flow), `copy_input` with `copy_lines`, `copy_binary_input`,
`copy_output`.
Around them: `configuration`, `cli`, `auth`, `cancel`.
"""
