"""Connections over TLS and SASL, against a fake server."""

import base64
import hashlib
import hmac
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Self

import pytest
from request_frames import decode_request

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.wire_socket import ConnectionLostError, WireSocket
from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.headers import encode_response_parts
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.wire.schema.schema import Message

VERSIONS = tuple(
    ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in ADVERTISED.items()
)
USER, PASSWORD = "ann", "se,cr=t"
SALT, ROUNDS = b"salt", 4096


class Server:
    """A listener that answers one connection: ApiVersions, SaslHandshake, SaslAuthenticate."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = context
        self._thread = threading.Thread(target=self._serve)
        self._scram = ""
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        try:
            connected, _ = self._listener.accept()
            with connected if self._context is None else self._context.wrap_socket(connected, server_side=True) as end:
                while (size := int.from_bytes(end.recv(4), "big")) > 0:
                    header, request = decode_request(end.recv(size, socket.MSG_WAITALL if self._context is None else 0))
                    parts = encode_response_parts(self._answer(request), header.api_version, header.correlation_id)
                    end.sendall(b"".join(parts))
        except OSError:
            pass  # the client refuses the certificate, which the test checks

    def _answer(self, request: Message) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            known = ("PLAIN", "SCRAM-SHA-256")
            return SaslHandshakeResponse(error_code=0 if request.mechanism in known else 33, mechanisms=known)
        if isinstance(request, SaslAuthenticateRequest):
            given = bytes(request.auth_bytes).decode()
            return self._plain(given) if given.startswith("\0") else self._scrammed(given)
        return ApiVersionsResponse(api_keys=VERSIONS)

    @staticmethod
    def _plain(given: str) -> Message:
        good = given == f"\0{USER}\0{PASSWORD}"
        return SaslAuthenticateResponse(error_code=0 if good else 58, error_message=None if good else "wrong password")

    def _scrammed(self, given: str) -> Message:
        if not self._scram:
            nonce = given.split("r=")[1] + "server"
            first = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ROUNDS}"
            self._scram = f"{given[3:]},{first}"
            return SaslAuthenticateResponse(auth_bytes=first.encode())
        final, proof = given.rsplit(",p=", 1)
        message = f"{self._scram},{final}".encode()
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, ROUNDS)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        good = base64.b64decode(proof) == expected
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        answer = b"v=" + base64.b64encode(server) if good else b""
        return SaslAuthenticateResponse(
            error_code=0 if good else 58, error_message=None if good else "wrong", auth_bytes=answer
        )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, with its key in the same file."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "the tests of TLS need openssl"
    path = tmp_path_factory.mktemp("tls")
    made, key, both = path / "certificate.pem", path / "key.pem", path / "both.pem"
    subject = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", made, *subject],
        check=True,
        capture_output=True,
    )
    both.write_text(made.read_text() + key.read_text())
    return both


def connect(port: int, **settings: str) -> WireSocket:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return WireSocket("127.0.0.1", port, named, 10)


def tls_server(certificate: Path) -> Server:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return Server(context)


def test_over_tls_with_the_authority_that_is_named(certificate: Path) -> None:
    with tls_server(certificate) as server:
        made = connect(server.port, security_protocol="SSL", ssl_ca_location=str(certificate))
        assert made.versions[ApiKey.FETCH] == ADVERTISED[ApiKey.FETCH]
        made.close()


def test_a_certificate_of_an_unknown_authority_is_not_accepted(certificate: Path) -> None:
    with tls_server(certificate) as server, pytest.raises(ConnectionLostError, match="certificate verify failed"):
        connect(server.port, security_protocol="SSL")


@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_that_cannot_be_read_is_named_with_its_setting(setting: str, tmp_path: Path) -> None:
    absent, other = tmp_path / "absent.pem", tmp_path / "other.pem"
    other.write_text("no certificate")
    for file, reason in ((absent, "No such file or directory"), (other, r"\[")):
        with pytest.raises(PipelineError, match=f"^{setting}={file}: {reason}"):
            connect(1, security_protocol="SSL", **{setting: str(file)})


def test_a_certificate_may_be_left_unchecked(certificate: Path) -> None:
    with tls_server(certificate) as server:
        connect(server.port, security_protocol="ssl", enable_ssl_certificate_verification="false").close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_credentials_are_given_and_checked(mechanism: str) -> None:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": USER}
    with Server() as server:
        connect(server.port, **options, sasl_password=PASSWORD).close()
    with Server() as server, pytest.raises(PipelineError, match="wrong"):
        connect(server.port, **options, sasl_password="guess")


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [("SCRAM-SHA-512", "offers PLAIN, SCRAM-SHA-256, not SCRAM-SHA-512"), ("GSSAPI", "not GSSAPI")],
)
def test_a_mechanism_that_the_broker_does_not_offer(mechanism: str, message: str) -> None:
    with Server() as server, pytest.raises(PipelineError, match=message):
        connect(server.port, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism)


def test_a_version_that_both_know_is_chosen() -> None:
    with Server() as server:
        made = connect(server.port)
        assert made.version_of(ApiKey.FETCH, (4, 12)) == 12
        assert made.version_of(ApiKey.FETCH, (19, 20)) is None
        assert made.version_of(ApiKey.VOTE, (0, 2)) is None
        made.close()
