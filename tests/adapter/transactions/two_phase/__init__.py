"""Tests of prepared transactions."""
