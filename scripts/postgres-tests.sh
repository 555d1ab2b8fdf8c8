#!/usr/bin/env bash
# Brings PostgreSQL 15's own tests to .cache/postgres-tests: isolation/ (its specs) and regress/ (SQL, data, schedule),
# from Debian's source package of postgresql-15, which apt checks. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=$PWD/.cache/postgres-tests
if [ -d "$cache/regress" ]; then exit 0; fi
rm -rf "$cache"
mkdir -p "$cache/lists/partial" "$cache/archives/partial" "$cache/source"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" \
    >"$cache/source.list"
options=(
    -qq -o "Dir::Etc::SourceList=$cache/source.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$cache/lists" -o "Dir::Cache=$cache" -o "APT::Sandbox::User=$(id -un)"
)
echo "PostgreSQL's tests: fetching Debian's source package of postgresql-15" >&2
apt-get "${options[@]}" update
cd "$cache/source"
apt-get "${options[@]}" source --download-only postgresql-15 >/dev/null
tar -xjf postgresql-15_*.orig.tar.bz2 --strip-components=3 --wildcards \
    '*/src/test/isolation/specs' '*/src/test/regress/sql' '*/src/test/regress/data' \
    '*/src/test/regress/parallel_schedule' -C "$cache/source"
mv "$cache/source/isolation" "$cache/isolation"
mv "$cache/source/regress" "$cache/regress"
rm -rf "$cache/source" "$cache/lists" "$cache/archives" "$cache/source.list"
