"""Hadoop's file systems for object stores: the executors read what the server names by its own URLs and options.

    s3://bucket/key                       s3a://bucket/key                                     hadoop-aws
    gs://bucket/key                       gs://bucket/key                                      hadoop-gcp, or Google's
    az://container/key                    abfss://container@account.dfs.core.windows.net/key   hadoop-azure
    abfss://container@account.host/key    the same

Their classes come with the cluster or by ``spark.jars.packages``. Each is told what the server was told with
``--blob-option``; what it has no counterpart for is refused by name when the server starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from storage.stores.object_options import CLIENT_OPTIONS, plain_options
from storage.stores.object_place import ObjectPlace


class Connector(Struct, frozen=True, kw_only=True):
    """A file system of Hadoop's: what people call its stores, its classes, one of which must be there, and the package
    that has them."""

    stores: str
    classes: tuple[str, ...]
    package: str


class UnknownToHadoop(Exception):
    """Executors cannot be told what an option says; the text names it."""


_S3 = Connector(
    stores="S3", classes=("org.apache.hadoop.fs.s3a.S3AFileSystem",), package="org.apache.hadoop:hadoop-aws:VERSION"
)
_GOOGLE = Connector(
    stores="Google Cloud Storage",
    classes=(
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
    ),
    package="org.apache.hadoop:hadoop-gcp:VERSION",
)
_AZURE = Connector(
    stores="Azure",
    classes=("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",),
    package="org.apache.hadoop:hadoop-azure:VERSION",
)

_CONNECTORS: Mapping[str, Connector] = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    "gs": _GOOGLE,
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), _AZURE),
}


def connector_of(place: ObjectPlace) -> Connector:
    """The file system with which executors read `place`."""
    return _CONNECTORS[urlsplit(place.root).scheme]


def hadoop_url(url: str, options: Mapping[str, str]) -> str:
    """What executors open to read the object `url` of a store with these options."""
    parts = urlsplit(url)
    connector = _CONNECTORS[parts.scheme]
    if connector is _S3:
        return urlunsplit(parts._replace(scheme="s3a"))
    if connector is _GOOGLE:
        return url
    own = plain_options(url, options)
    scheme = "abfs" if own.get("endpoint", "").startswith("http://") else "abfss"
    container = parts.netloc.partition("@")[0]
    return urlunsplit(parts._replace(scheme=scheme, netloc=f"{container}@{_account_host(url, own)}"))


def hadoop_settings(place: ObjectPlace, file_system: str | None = None) -> dict[str, str]:
    """Spark's settings with which Hadoop reaches `place`, by the class `file_system` of its connector. Raises
    UnknownToHadoop."""
    options = plain_options(place.root, place.options)
    connector = connector_of(place)
    if connector is _S3:
        settings = _s3_settings(place.root, options)
    elif connector is _GOOGLE:
        settings = _google_settings(options, file_system)
    else:
        settings = _azure_settings(place.root, options)
    return {f"spark.hadoop.{name}": value for name, value in settings.items()}


def _refuse_others(stores: str, options: Mapping[str, str], known: Iterable[str]) -> None:
    others = sorted(set(options) - set(known) - CLIENT_OPTIONS)
    if others:
        raise UnknownToHadoop(f"executors reach {stores} with no option {', '.join(others)}")


_S3_OPTIONS: Mapping[str, str] = {
    "endpoint": "endpoint",
    "region": "endpoint.region",
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
"""Options of ours, and what Hadoop calls them below ``fs.s3a.bucket.<bucket>.``."""


def _s3_settings(root: str, options: Mapping[str, str]) -> dict[str, str]:
    bucket = f"fs.s3a.bucket.{urlsplit(root).netloc}."
    settings = {
        "path.style.access": str(options.get("virtual_hosted_style_request") != "true").lower(),
        **{_S3_OPTIONS[name]: value for name, value in options.items() if name in _S3_OPTIONS},
    }
    if options.get("endpoint", "").startswith("http://"):
        settings["connection.ssl.enabled"] = "false"
    if options.get("skip_signature") == "true":
        settings["aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    return {bucket + name: value for name, value in settings.items()}


_GOOGLE_OPTIONS = ("service_account", "application_credentials", "skip_signature", "base_url")


def _google_settings(options: Mapping[str, str], file_system: str | None) -> dict[str, str]:
    _refuse_others(_GOOGLE.stores, options, _GOOGLE_OPTIONS)
    settings = {} if file_system is None else {"fs.gs.impl": file_system}
    key_file = options.get("service_account") or options.get("application_credentials")
    # NOTE: Google's own file system says some of these in another way, up to its version 2.
    if key_file is not None:
        settings["fs.gs.auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        settings["fs.gs.auth.service.account.enable"] = "true"
        settings["fs.gs.auth.service.account.json.keyfile"] = key_file
    elif options.get("skip_signature") == "true":
        settings["fs.gs.auth.type"] = "UNAUTHENTICATED"
        settings["fs.gs.auth.service.account.enable"] = "false"
        settings["fs.gs.auth.null.enable"] = "true"
    else:
        settings["fs.gs.auth.type"] = "APPLICATION_DEFAULT"
    if "base_url" in options:
        settings["fs.gs.storage.root.url"] = options["base_url"].rstrip("/") + "/"
    return settings


_AZURE_OPTIONS = (
    "account_name", "account_key", "sas_token", "client_id", "client_secret", "tenant_id", "federated_token_file",
    "endpoint",
)  # fmt: skip
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2."
_LOGIN = "https://login.microsoftonline.com"


def _azure_settings(root: str, options: Mapping[str, str]) -> dict[str, str]:
    _refuse_others(_AZURE.stores, options, _AZURE_OPTIONS)
    host = _account_host(root, options)
    address = urlsplit(options.get("endpoint", ""))
    settings = {}
    if address.port is not None:
        # An emulator, which has no hierarchical names.
        settings["abfs.endpoint"] = address.netloc
        settings["account.hns.enabled"] = "false"
        settings["fns.account.service.type"] = "BLOB"
    if address.scheme == "http":
        settings["always.use.https"] = "false"
        # The other one wants to know how to speak TLS.
        settings["networking.library"] = "JDK_HTTP_URL_CONNECTION"
    if "account_key" in options:
        own = {"account.auth.type": "SharedKey", "account.key": options["account_key"]}
    elif "sas_token" in options:
        own = {"account.auth.type": "SAS", "sas.fixed.token": options["sas_token"].removeprefix("?")}
    else:
        own = {"account.auth.type": "OAuth", **_azure_identity(options)}
    settings |= {f"{name}.{host}": value for name, value in own.items()}
    return {f"fs.azure.{name}": value for name, value in settings.items()}


def _azure_identity(options: Mapping[str, str]) -> dict[str, str]:
    kind, client = "account.oauth.provider.type", "account.oauth2.client."
    given = {name: options[name] for name in ("client_id", "client_secret", "tenant_id") if name in options}
    if "client_secret" in options:
        if len(given) < 3:
            raise UnknownToHadoop(f"executors reach {_AZURE.stores} with client_id, client_secret and tenant_id")
        return {
            kind: _PROVIDERS + "ClientCredsTokenProvider",
            client + "id": given["client_id"],
            client + "secret": given["client_secret"],
            client + "endpoint": f"{_LOGIN}/{given['tenant_id']}/oauth2/token",
        }
    named = {client + "id": given["client_id"]} if "client_id" in given else {}
    tenant = {"account.oauth2.msi.tenant": given["tenant_id"]} if "tenant_id" in given else {}
    if "federated_token_file" in options:
        token = {"account.oauth2.token.file": options["federated_token_file"]}
        return {kind: _PROVIDERS + "WorkloadIdentityTokenProvider", **token, **named, **tenant}
    return {kind: _PROVIDERS + "MsiTokenProvider", **named, **tenant}


def _account_host(url: str, options: Mapping[str, str]) -> str:
    """The host that names the account, as Hadoop writes it. Raises UnknownToHadoop."""
    host = urlsplit(url).netloc.partition("@")[2]
    if host:
        return host
    address = urlsplit(options.get("endpoint", ""))
    if address.hostname is not None and address.port is None:
        return address.hostname.replace(".blob.", ".dfs.")
    if "account_name" not in options:
        raise UnknownToHadoop(f"executors reach {_AZURE.stores} with the option account_name")
    return f"{options['account_name']}.dfs.core.windows.net"
