"""Private folders of servers: removed at the end, or by the next server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from adapter.sessions.scratch import LOCK, PREFIX, Scratch

HOLD = (
    "import sys; from pathlib import Path; from adapter.sessions.scratch import Scratch;"
    " s = Scratch(Path(sys.argv[1])); print(s.path, flush=True); sys.stdin.read()"
)


def test_what_a_killed_server_left_is_removed_by_the_next(tmp_path: Path) -> None:
    foreign = tmp_path / f"{PREFIX}not-ours"
    foreign.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    theirs = Path(process.stdout.readline().strip())
    (theirs / "spill").write_text("rows")
    first = Scratch(tmp_path)
    assert theirs.exists()
    process.kill()
    process.communicate()
    second = Scratch(tmp_path)
    assert not theirs.exists()
    assert (first.path / LOCK).exists()
    for scratch in (first, second, first):
        scratch.remove()
    assert list(tmp_path.iterdir()) == [foreign]
