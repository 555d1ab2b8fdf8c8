"""pgjdbc: metadata, batches, named statements with binary results, portals with a fetch size, errors."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server import TidegateServer

DRIVER = Path("/usr/share/java/postgresql.jar")
SMOKE = Path(__file__).parent / "jdbc" / "Smoke.java"


def test_pgjdbc(server: TidegateServer) -> None:
    java = shutil.which("java")
    missing = [
        what
        for what, there in (("java", java), (str(DRIVER), DRIVER.exists()), ("javac", shutil.which("javac")))
        if not there
    ]
    if missing:
        message = f"pgjdbc cannot be tried: missing {', '.join(missing)}"
        assert not os.environ.get("CI"), message
        pytest.skip(message)
    url = f"jdbc:postgresql://{server.host}:{server.port}/postgres"
    result = subprocess.run(
        [str(java), "-cp", str(DRIVER), str(SMOKE), url, "jdbc_smoke"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all passed" in result.stdout
