"""Tests of the frontend: codec, encodings, COPY, connections, configuration."""
