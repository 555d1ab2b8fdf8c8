#!/usr/bin/env bash
# Brings PostgreSQL 15's own tests to .cache/postgres-tests: isolation/ (its specs) and regress/ (SQL, data, schedule),
# from Debian's source package of postgresql-15, which apt checks. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=$PWD/.cache/postgres-tests
if [ -d "$cache/regress" ]; then exit 0; fi
rm -rf "$cache"
mkdir -p "$cache/source"
scripts/debian-source.sh bookworm postgresql-15 "$cache/source"
cd "$cache/source"
tar -xjf postgresql-15_*.orig.tar.bz2 --strip-components=3 --wildcards \
    '*/src/test/isolation/specs' '*/src/test/regress/sql' '*/src/test/regress/data' \
    '*/src/test/regress/parallel_schedule' -C "$cache/source"
mv "$cache/source/isolation" "$cache/isolation"
mv "$cache/source/regress" "$cache/regress"
rm -rf "$cache/source"
