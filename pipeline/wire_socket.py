"""One blocking connection to a broker over our own wire messages: TLS, SASL, versions, one request at a time.

For jobs that need stored record batches, which client libraries do not return. Settings have librdkafka's names.
"""

import importlib.util
import socket
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from odradek.gateway.net.sending import send_many
from odradek.pipeline.errors import MissingError, PipelineError
from odradek.wire.api_keys import ApiKey, api_key_of
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.headers import decode_response, encode_request_parts
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer

M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "odradek-pipeline"
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The limit for responses; a larger one is refused before memory is allocated."""
_LENGTH_BYTES: Final = 4
_PARTS_AT_ONCE: Final = 1_000
"""The number of buffers per call; Linux and macOS accept 1,024."""
_TLS: Final = frozenset({"SSL", "SASL_SSL"})
_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
_SCRAM: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})


class ConnectionLostError(PipelineError):
    """The broker cannot be reached, or the connection was closed; the request may have been executed."""


class WireSocket:
    """The constructor connects and authenticates. For one thread at a time. `timeout_s` limits connecting, and each
    wait for bytes. Raises ConnectionLostError, PipelineError for invalid settings or refused credentials, MissingError.
    """

    def __init__(self, host: str, port: int, settings: Mapping[str, str], timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self.versions: dict[ApiKey, tuple[int, int]] = {}
        self._correlation = 0
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        tls = _tls(settings) if protocol in _TLS else None
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=_checked_name(settings, host))
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {error} (is a broker running there?)") from error
        try:
            self._ask_versions()
            if protocol in _SASL:
                self._authenticate(settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._socket.close()

    def version_of(self, key: ApiKey, ours: tuple[int, int]) -> int | None:
        """Return the newest version of `key` that the broker and `ours` (first, last) have; None if there is none."""
        theirs = self.versions.get(key)
        if theirs is None:
            return None
        newest = min(theirs[1], ours[1])
        return newest if newest >= max(theirs[0], ours[0]) else None

    def request(self, message: Message, version: int, response: type[M]) -> M:
        """Send `message` and wait for its response. Raises ConnectionLostError; then the connection cannot be used any
        more.
        """
        key = api_key_of(message.__message__.api_key or 0)
        assert key is not None
        self._correlation += 1
        try:
            self._send(encode_request_parts(message, version, self._correlation, CLIENT_ID))
            correlation, answer = decode_response(key, version, self._receive())
        except (OSError, ProtocolError) as error:
            self.close()
            raise ConnectionLostError(f"{self.address}: {key.name}: {error}") from error
        if correlation != self._correlation or not isinstance(answer, response):
            self.close()
            raise ConnectionLostError(f"{self.address}: {key.name}: the answer is to another request")
        return answer

    def _send(self, parts: Sequence[Buffer]) -> None:
        """Send all parts; without TLS they are not copied."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.sendall(b"".join(parts))
            return
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            sent = send_many(self._socket, left[:_PARTS_AT_ONCE])
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def _receive(self) -> memoryview:
        size = int.from_bytes(self._receive_exactly(_LENGTH_BYTES), "big", signed=True)
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise OSError(f"a response of {size} bytes is not accepted")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        done = 0
        while done < size:
            count = self._socket.recv_into(view[done:])
            if not count:
                raise OSError("the broker closed the connection")
            done += count
        return view

    def _ask_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version="1")
        answer = self.request(request, 3, ApiVersionsResponse)
        if answer.error_code:
            raise PipelineError(f"{self.address}: ApiVersions: {error_name(answer.error_code)}")
        for one in answer.api_keys:
            key = api_key_of(one.api_key)
            if key is not None:
                self.versions[key] = (one.min_version, one.max_version)

    def _authenticate(self, settings: Mapping[str, str]) -> None:
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "PLAIN")
        user, password = settings.get("sasl.username", ""), settings.get("sasl.password", "")
        handshake = self.request(SaslHandshakeRequest(mechanism=mechanism), 1, SaslHandshakeResponse)
        if handshake.error_code:
            raise PipelineError(f"{self.address} offers {', '.join(handshake.mechanisms)}, not {mechanism}")
        if mechanism == "PLAIN":
            self._exchange(f"\0{user}\0{password}".encode())
        elif mechanism in _SCRAM:
            self._scram(user, password, mechanism)
        else:
            raise PipelineError(f"sasl.mechanism={mechanism}: PLAIN and SCRAM are known")

    def _scram(self, user: str, password: str, mechanism: str) -> None:
        if importlib.util.find_spec("kafka") is None:
            raise MissingError("SCRAM needs kafka-python: pip install 'odradek[cli]'")
        from kafka.net.sasl.scram import ScramClient  # pyright: ignore[reportMissingTypeStubs]

        client = cast("Any", ScramClient)(user, password, mechanism)
        client.process_server_first_message(self._exchange(client.first_message()))
        client.process_server_final_message(self._exchange(client.final_message()))

    def _exchange(self, content: bytes) -> bytes:
        version = self.version_of(ApiKey.SASL_AUTHENTICATE, (0, 2))
        answer = self.request(SaslAuthenticateRequest(auth_bytes=content), version or 0, SaslAuthenticateResponse)
        if answer.error_code:
            raise PipelineError(f"{self.address}: {answer.error_message or error_name(answer.error_code)}")
        return bytes(answer.auth_bytes)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number of an unknown one."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of the settings. Raises PipelineError for a file that cannot be read."""
    with _naming_files(settings, "ssl.ca.location"):
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
    certificate, key = settings.get("ssl.certificate.location"), settings.get("ssl.key.location")
    if certificate is not None:
        with _naming_files(settings, "ssl.certificate.location", "ssl.key.location"):
            context.load_cert_chain(certificate, key, settings.get("ssl.key.password"))
    if _is_any_name(settings):
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _naming_files(settings: Mapping[str, str], *names: str) -> Generator[None]:
    """Map errors of the block to PipelineError with the settings that name its files, which the errors do not name."""
    try:
        yield
    except OSError as error:
        files = ", ".join(f"{name}={settings[name]}" for name in names if name in settings)
        raise PipelineError(f"{files}: {error.strerror or error}") from error


def _is_any_name(settings: Mapping[str, str]) -> bool:
    return settings.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none")


def _checked_name(settings: Mapping[str, str], host: str) -> str | None:
    return None if _is_any_name(settings) else host
