"""Tests of `frontend.authentication`."""
