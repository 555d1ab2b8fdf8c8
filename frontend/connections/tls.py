"""TLS between the socket and the protocol: bytes in, bytes out, without I/O of its own; and the server's certificate.

`TlsLayer` encrypts one connection. Since the layer is put in place at one moment, between two messages, nothing that
came before it can be taken for what comes through it (CVE-2021-23214). `Certificates` has what every connection needs
and reads it again when told to; connections keep what they began with.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from adapter.results import TlsFacts

ALPN = "postgresql"
HANDSHAKE_RECORD = b"\x16"
"""The first byte of a client that begins with TLS at once, as PostgreSQL 17 allows it."""
_READ_BYTES = 256 << 10
_WEAK_HASHES = ("md5", "sha1")


class BadCertificate(Exception):
    """A certificate cannot be used; the message says which and why."""


class PeerCertificate(Struct, frozen=True, kw_only=True):
    """What a client's certificate, which has been verified, says."""

    common_name: str | None
    distinguished_name: str
    """As RFC 4514 writes it: the most specific part first."""
    subject: str
    issuer: str
    """As pg_stat_ssl shows them: /CN=ada/O=..."""
    serial: int


class Certificates:
    """See the module's contract. `client_ca` has the authorities of clients' certificates; without it none is asked
    for."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """Raises BadCertificate."""
        self._files = certificate, key, client_ca
        self.reload()

    def http_context(self) -> ssl.SSLContext:
        """A context for HTTPS. Its connections have the certificate that is newest when they begin."""
        context = self._bare_context()

        def use_newest(connection: ssl.SSLObject, name: str | None, given: ssl.SSLContext) -> None:
            connection.context = self._for_http

        context.sni_callback = use_newest
        return context

    def _bare_context(self) -> ssl.SSLContext:
        certificate, key, _ = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key, password=lambda: "")
        return context

    @property
    def verifies_clients(self) -> bool:
        """Whether clients' certificates are verified."""
        return self._files[2] is not None

    def reload(self) -> None:
        """Read the files again. Raises BadCertificate, and changes nothing."""
        self.context, self.channel_binding = self._loaded()
        self._for_http = self._bare_context()

    def _loaded(self) -> tuple[ssl.SSLContext, bytes | None]:
        certificate, key, client_ca = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A session that is taken up again would come in without the client's certificate.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.num_tickets = 0
        context.set_alpn_protocols([ALPN])
        try:
            context.load_cert_chain(certificate, key, password=lambda: "")
            binding = _end_point(certificate.read_bytes())
        except (OSError, ValueError) as error:
            raise BadCertificate(f"cannot load the TLS certificate {certificate}: {error}") from error
        if client_ca is not None:
            try:
                context.load_verify_locations(client_ca)
            except OSError as error:
                raise BadCertificate(f"cannot load the authorities of clients {client_ca}: {error}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        return context, binding


def _end_point(pem: bytes) -> bytes | None:
    """What SCRAM-SHA-256-PLUS binds to (RFC 5929, tls-server-end-point): the certificate, hashed as its signature
    hashes; None where that has no hash of its own."""
    certificate = x509.load_pem_x509_certificate(pem)
    algorithm = certificate.signature_hash_algorithm
    if algorithm is None:
        return None
    name = "sha256" if algorithm.name in _WEAK_HASHES else algorithm.name
    return hashlib.new(name, ssl.PEM_cert_to_DER_cert(_first(pem))).digest()


def _first(pem: bytes) -> str:
    """The first certificate of a chain: the server's own."""
    text = pem.decode("ascii", "replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return text[text.index(begin) : text.index(end) + len(end)]


class TlsLayer:
    """The server's end of one encrypted connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_open = False
        """The handshake is over."""
        self.is_ended = False
        """The client has said that nothing more comes."""

    def receive(self, data: bytes) -> bytes:
        """What the client says with these bytes. Raises ssl.SSLError; `take_output` has the alert for the client."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.is_open:
                self._object.do_handshake()
                self.is_open = True
            while True:
                piece = self._object.read(_READ_BYTES)
                if not piece:
                    self.is_ended = True
                    break
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return b"".join(plain)

    def send(self, data: bytes | memoryview) -> None:
        """Encrypt these bytes; `take_output` has them."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self._object.write(view) :]

    def take_output(self) -> bytes:
        """What is to be sent."""
        return self._outgoing.read()

    def end(self) -> None:
        """Say that nothing more comes."""
        if self.is_open:
            try:
                self._object.unwrap()
            except ssl.SSLError:
                return  # The client's farewell is not waited for.

    @property
    def protocol(self) -> str | None:
        """The application protocol agreed on."""
        return self._object.selected_alpn_protocol()

    @property
    def peer(self) -> PeerCertificate | None:
        """The client's certificate, None without one. Of an open connection."""
        der = self._object.getpeercert(True)
        if der is None:
            return None
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return PeerCertificate(
            # A name with a zero inside is made to be read in two ways.
            common_name=cast(str, names[-1].value) if names and "\0" not in str(names[-1].value) else None,
            distinguished_name=certificate.subject.rfc4514_string(),
            subject=_in_one_line(certificate.subject),
            issuer=_in_one_line(certificate.issuer),
            serial=certificate.serial_number,
        )

    @property
    def facts(self) -> TlsFacts:
        """What pg_stat_ssl shows. Of an open connection."""
        cipher = self._object.cipher()
        assert cipher is not None
        peer = self.peer
        return TlsFacts(
            version=self._object.version() or "",
            cipher=cipher[0],
            bits=cipher[2],
            client_dn=None if peer is None else peer.subject,
            client_serial=None if peer is None else peer.serial,
            issuer_dn=None if peer is None else peer.issuer,
        )


def _in_one_line(name: x509.Name) -> str:
    return "".join(f"/{attribute.rfc4514_attribute_name}={attribute.value!s}" for attribute in name)
