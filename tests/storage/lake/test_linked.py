"""Links to files of others: a file that several links are to goes with the last of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from storage.lake.linked import LinkedBlob, PlaceFiles
from storage.lake.places import LakeFile, Places
from storage.shards.links import CLAIMS, LinkTarget, target_key
from storage.stores.blob_local import LocalBlob

LINKS = ("parts/one/server-a.link", "parts/two/server-b.link")


@pytest.fixture
def blob(tmp_path: Path) -> LinkedBlob:
    """A store that follows links to files of the test's folder."""
    return LinkedBlob(LocalBlob(tmp_path / "blob"), PlaceFiles(Places((tmp_path,), {})))


async def adopt(blob: LinkedBlob, link: str, file: Path, *, owned: bool) -> None:
    """Store a link to `file`."""
    now = Places((file.parent,), {}).now(LakeFile(path=str(file), size=0, version=""))
    target = LinkTarget(path=str(file), bytes=now.size, version=now.version, owned=owned)
    assert await blob.put_if_absent(link, msgspec.json.encode(target))


async def collect(blob: LinkedBlob, link: str) -> None:
    """What garbage collection does with a link."""
    await blob.delete(target_key(link))
    await blob.delete(link)


async def claims(blob: LinkedBlob) -> int:
    """How many there are."""
    return len([entry.key async for entry in blob.list(CLAIMS)])


async def test_an_owned_file_goes_with_the_last_link_to_it(blob: LinkedBlob, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    file.write_bytes(b"rows")
    for link in LINKS:
        await adopt(blob, link, file, owned=True)
    await collect(blob, LINKS[0])
    assert file.exists()
    assert await blob.get(LINKS[1]) == b"rows"
    await collect(blob, LINKS[1])
    assert not file.exists()
    assert await claims(blob) == 0


async def test_a_file_stays_whose_last_link_does_not_own_it(blob: LinkedBlob, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    file.write_bytes(b"rows")
    await adopt(blob, LINKS[0], file, owned=True)
    await adopt(blob, LINKS[1], file, owned=False)
    for link in LINKS:
        await collect(blob, link)
    assert file.read_bytes() == b"rows"
    assert await claims(blob) == 0


async def test_claims_without_a_link_and_tombstones_count_for_nothing(blob: LinkedBlob, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    file.write_bytes(b"rows")
    await adopt(blob, LINKS[0], file, owned=True)
    await adopt(blob, LINKS[1], file, owned=True)
    await blob.inner.delete(LINKS[1])  # As after a crash before the link was stored.
    assert await blob.put_if_absent("parts/two/server-c.link", b"prevented")
    await collect(blob, LINKS[0])
    assert not file.exists()
    await blob.delete("parts/two/server-c.link")
    assert await blob.size("parts/two/server-c.link") is None
