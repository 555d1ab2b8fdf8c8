#!/usr/bin/env bash
# Sets up ./.venv: `scripts/setup.sh run` what the server needs, `scripts/setup.sh dev` what the tests need as well.
# `scripts/setup.sh ducklake` sets up .cache/ducklake, after one of these: what `make bench NAME=small` needs for DuckLake.
# `scripts/setup.sh tpcds` sets up .cache/tpcds, after one of these: what generates TPC-DS.
# `scripts/setup.sh iceberg` sets up .cache/iceberg, after one of these: the Spark that Iceberg's runtime is made for.
# `scripts/setup.sh connect` sets up .cache/connect, after one of these: what a client of Spark Connect needs, to be
# named in PYTHONPATH.
# Does nothing when the lock files have not changed since it last succeeded.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-run}
case "$profile" in
    run) locks=(requirements.lock) ;;
    dev) locks=(requirements-dev.lock) ;;
    ducklake | tpcds | iceberg)
        .venv/bin/uv venv --quiet --allow-existing --python .venv/bin/python ".cache/$profile"
        .venv/bin/uv pip install --quiet --python ".cache/$profile/bin/python" --require-hashes -r "requirements-$profile.lock"
        exit ;;
    connect)
        if cmp -s requirements-connect.lock .cache/connect/.lock; then exit 0; fi
        rm -rf .cache/connect
        .venv/bin/uv pip install --quiet --python .venv/bin/python --target .cache/connect --require-hashes -r requirements-connect.lock
        cp requirements-connect.lock .cache/connect/.lock
        exit ;;
    *) echo "usage: scripts/setup.sh run|dev|ducklake|tpcds|iceberg|connect" >&2; exit 2 ;;
esac

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: Python 3.11 or newer is needed and was not found; set PYTHON to one" >&2
    exit 1
}

# Java 17 or newer, as the Spark gateway looks for it: JAVA_HOME first, then PATH.
has_java() {
    local java version
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        [ -n "$java" ] && command -v "$java" >/dev/null 2>&1 || continue
        version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
        [ -n "$version" ] && [ "$version" -ge 17 ] && return 0
    done
    return 1
}

if ! has_java; then locks+=(requirements-java.lock); fi

stamp=.venv/.setup-$profile
# The archive of classes, below, is of one build of Java.
wanted=$({ cat "${locks[@]}" pyproject.toml scripts/setup.sh; "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | grep -i build || true; } | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

python=$(find_python)
if [ ! -x .venv/bin/python ]; then
    echo "setup: creating .venv with $("$python" --version)" >&2
    "$python" -m venv .venv
fi
if [ ! -x .venv/bin/uv ]; then .venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8; fi
export UV_LINK_MODE=${UV_LINK_MODE:-copy}
for lock in "${locks[@]}"; do
    echo "setup: installing $lock" >&2
    .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
done
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps -e .
echo "setup: archiving Spark's classes, so that it starts in half the time" >&2
# Spark starts without it too.
.venv/bin/python -m adapter.engines.spark.java.class_archive || echo "setup: no archive was made, Spark starts slower" >&2
printf '%s' "$wanted" >"$stamp"
