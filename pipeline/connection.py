"""The connection settings of a Kafka, translated to the names of each client library."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.pipeline.errors import PipelineError

DEFAULT_TIMEOUT_S = 30.0

_FOR_LIBRDKAFKA = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
}
"""kafka-python's names, which other commands of `odradek` accept for -X, with librdkafka's equivalents. Of librdkafka's
two names of the mechanism the one is used that Java's clients have, too.
"""

_PEM_STORES = {
    "ssl.ca.location": ("ssl.truststore.location", "ssl.truststore.type"),
    "ssl.certificate.location": ("ssl.keystore.location", "ssl.keystore.type"),
}
"""librdkafka's settings for PEM files, with the equivalents of Java's clients."""

_SCRAM, _PLAIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    "org.apache.kafka.common.security.plain.PlainLoginModule",
)
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.")
_LIBRDKAFKA_ONLY = ("sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.", "ssl.key.location")


@dataclass(frozen=True, slots=True)
class Connection:
    """A Kafka cluster: `bootstrap` is `host:port[,…]`, `properties` are client settings, with librdkafka's names, or
    kafka-python's with dots. Those that only Java's clients have (`sasl.jaas.config`, `ssl.truststore.*`,
    `ssl.keystore.*`) are only passed to Spark. `timeout_s` limits requests for metadata and offsets.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = DEFAULT_TIMEOUT_S

    def for_librdkafka(self) -> dict[str, str | int | float | bool]:
        """Return the settings of a confluent-kafka client."""
        named = {_FOR_LIBRDKAFKA.get(name, name): value for name, value in self.properties.items()}
        kept = {name: value for name, value in named.items() if not name.startswith(_JAVA_ONLY)}
        return {"bootstrap.servers": self.bootstrap, **kept}

    def for_spark(self) -> dict[str, str]:
        """Return the options of Spark's `format("kafka")`: Java's settings prefixed with `kafka.`.

        User and password are converted to the `sasl.jaas.config` of their mechanism. Raises PipelineError if the key of
        a client certificate is in a separate file, which Java's clients do not support.
        """
        named = {_FOR_LIBRDKAFKA.get(name, name): value for name, value in self.properties.items()}
        if "ssl.key.location" in named:
            raise PipelineError(
                "Spark reads key and certificate from one PEM file: give it as -X ssl.keystore.location"
            )
        java = {name: value for name, value in named.items() if not name.startswith(_LIBRDKAFKA_ONLY)}
        for name, (location, kind) in _PEM_STORES.items():
            if name in named:
                java |= {location: named[name], kind: "PEM"}
        if "sasl.username" in named:
            java.setdefault("sasl.jaas.config", _jaas(named))
        return {"kafka.bootstrap.servers": self.bootstrap, **{f"kafka.{name}": value for name, value in java.items()}}


def _jaas(named: Mapping[str, str]) -> str:
    module = _SCRAM if named.get("sasl.mechanism", "PLAIN").startswith("SCRAM") else _PLAIN
    user, password = (_quoted(named.get(name, "")) for name in ("sasl.username", "sasl.password"))
    return f"{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
