"""How executors are told of an object store: by Hadoop's names for the server's URLs and options."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.engines.spark.cluster.connectors import UnknownToHadoop, hadoop_settings, hadoop_url
from adapter.sessions.options import ServerOptions, check_spark_reaches
from storage.environment.named_stores import StoreNames
from storage.errors import InvalidStore
from storage.stores.object_options import store_options
from storage.stores.object_place import ObjectPlace

HOST = "lake.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://bucket/a/b", {}, "s3a://bucket/a/b"),
        ("s3a://bucket/a/b", {}, "s3a://bucket/a/b"),
        ("gs://bucket/a/b", {}, "gs://bucket/a/b"),
        ("az://data/a/b", {"account_name": "lake"}, f"abfss://data@{HOST}/a/b"),
        ("azure://data/a", {"azure_storage_account_name": "lake"}, f"abfss://data@{HOST}/a"),
        (f"abfss://data@{HOST}/a", {"account_name": "lake"}, f"abfss://data@{HOST}/a"),
        ("abfss://data@lake.blob.core.windows.net/a", {}, "abfss://data@lake.blob.core.windows.net/a"),
        ("az://data/a", {"account_name": "lake", "endpoint": "http://127.0.0.1:10000/lake"}, f"abfs://data@{HOST}/a"),
        ("az://data/a", {"endpoint": "https://lake.blob.core.usgovcloudapi.net"},
         "abfss://data@lake.dfs.core.usgovcloudapi.net/a"),
    ],
)  # fmt: skip
def test_urls(url: str, options: dict[str, str], expected: str) -> None:
    assert hadoop_url(url, options) == expected


def settings_of(root: str, **options: str) -> dict[str, str]:
    settings = hadoop_settings(ObjectPlace(root=root, options=options))
    assert all(name.startswith("spark.hadoop.fs.") for name in settings)
    return {name.removeprefix("spark.hadoop.fs."): value for name, value in settings.items()}


def test_s3() -> None:
    assert settings_of("s3://b/x", aws_access_key_id="a", aws_secret_access_key="s", endpoint="http://h:1") == {
        "s3a.bucket.b.path.style.access": "true",
        "s3a.bucket.b.access.key": "a",
        "s3a.bucket.b.secret.key": "s",
        "s3a.bucket.b.endpoint": "http://h:1",
        "s3a.bucket.b.connection.ssl.enabled": "false",
    }


def test_google() -> None:
    assert settings_of("gs://b/x") == {"gs.auth.type": "APPLICATION_DEFAULT"}
    assert settings_of("gs://b/x", google_service_account="/key.json") == {
        "gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "gs.auth.service.account.enable": "true",
        "gs.auth.service.account.json.keyfile": "/key.json",
    }
    place = ObjectPlace(root="gs://b/x")
    assert hadoop_settings(place, "some.FileSystem")["spark.hadoop.fs.gs.impl"] == "some.FileSystem"
    with pytest.raises(UnknownToHadoop, match="no option service_account_key"):
        settings_of("gs://b/x", service_account_key="{}")


def test_azure() -> None:
    assert settings_of("az://c/x", account_name="lake", access_key="k") == {
        f"azure.account.auth.type.{HOST}": "SharedKey",
        f"azure.account.key.{HOST}": "k",
    }
    assert settings_of(f"abfss://c@{HOST}/x", sas_token="?sv=1") == {
        f"azure.account.auth.type.{HOST}": "SAS",
        f"azure.sas.fixed.token.{HOST}": "sv=1",
    }
    secret = settings_of(f"abfss://c@{HOST}/x", client_id="i", client_secret="s", tenant_id="t")
    assert secret[f"azure.account.oauth2.client.endpoint.{HOST}"] == "https://login.microsoftonline.com/t/oauth2/token"
    assert secret[f"azure.account.oauth.provider.type.{HOST}"].endswith("ClientCredsTokenProvider")
    assert settings_of(f"abfss://c@{HOST}/x")[f"azure.account.oauth.provider.type.{HOST}"].endswith("MsiTokenProvider")
    for options in ({"client_secret": "s"}, {"bearer_token": "b"}, {"account_name": "lake", "use_azure_cli": "true"}):
        with pytest.raises(UnknownToHadoop):
            settings_of(f"abfss://c@{HOST}/x", **options)
    with pytest.raises(UnknownToHadoop, match="account_name"):
        settings_of("az://c/x", account_key="k")
    emulated = settings_of("az://c/x", account_name="lake", account_key="k", endpoint="http://127.0.0.1:10000/lake")
    assert emulated["azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert emulated["azure.always.use.https"] == "false"


def test_a_server_refuses_what_executors_cannot_be_told(tmp_path: Path) -> None:
    def check(blob: str, **options: str) -> None:
        stores = StoreNames(data_dir=tmp_path, consensus="postgresql://h/d", blob=blob, blob_options=options)
        check_spark_reaches(ServerOptions(stores=stores, spark_master="spark://h:7077"))

    check("gs://b/x")
    check("az://c/x", account_name="lake")
    with pytest.raises(InvalidStore, match=r"spark://h:7077 cannot reach .* gs://b/x: .* service_account_key"):
        check("gs://b/x", service_account_key="{}")
    with pytest.raises(InvalidStore, match="option account_name"):
        check("az://c/x")


def test_the_account_of_a_url_is_not_named_twice() -> None:
    root = f"abfss://c@{HOST}/x"
    assert store_options(root, {"azure_storage_account_name": "lake", "account_key": "k"}) == {"account_key": "k"}
    assert store_options("az://c/x", {"account_name": "lake"}) == {"account_name": "lake"}
    assert store_options("gs://c/x", {"base_url": "http://h"})["client_options"] == {"allow_http": True}
