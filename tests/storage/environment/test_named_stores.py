"""Which names are those of stores, and that object stores other than S3 are configuration only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from storage.environment.named_stores import StoreNames, check_names
from storage.errors import InvalidStore

ACCOUNT = {"account_name": "a", "access_key": "YWJj"}


@pytest.mark.parametrize(
    ("blob", "options"),
    [
        (None, {}),
        ("/var/lake", {}),
        ("file:///var/lake", {}),
        ("s3://bucket/prefix", {"region": "eu-central-1"}),
        ("s3://bucket/prefix", {"endpoint": "http://127.0.0.1:9000", "access_key_id": "a", "secret_access_key": "b"}),
        ("gs://bucket/prefix", {}),
        ("az://container/prefix", ACCOUNT),
        ("abfss://container@a.dfs.core.windows.net/prefix", {"access_key": "YWJj"}),
    ],
)
def test_names_of_blob_stores(blob: str | None, options: Mapping[str, str]) -> None:
    check_names(StoreNames(data_dir=Path("data"), blob=blob, blob_options=options))


@pytest.mark.parametrize(
    "blob",
    ["memory:///", "http://example/bucket", "https://example/bucket", "ftp://example/x", "s4://bucket", "az://c"],
)
def test_what_is_no_durable_blob_store_is_refused(blob: str) -> None:
    with pytest.raises(InvalidStore, match=rf"blob store {blob}.*expected a folder, s3://, gs:// or az:"):
        check_names(StoreNames(data_dir=Path("data"), blob=blob))


@pytest.mark.parametrize("consensus", ["mysql://host/db", "/var/lake", "redis://host"])
def test_what_is_no_consensus_store_is_refused(consensus: str) -> None:
    with pytest.raises(InvalidStore, match="expected postgresql://USER@HOST/DATABASE"):
        check_names(StoreNames(data_dir=Path("data"), consensus=consensus))
