"""Settings that promise a protection which this broker does not implement: they are refused instead of ignored.

Kafka's TLS, SASL, ACLs, policies and quota plug-ins are not implemented yet. A broker that silently accepted such a
setting would be open to every client that can reach its port, while its operator relies on the protection. A value that
is Kafka's default, or empty, promises nothing. Settings that only tune such a protection (time-outs, algorithms,
lifetimes) promise nothing by themselves; `odradek.coordinator.configs.effects` lists them among those without effect.
"""

from collections.abc import Iterable
from typing import Final

from odradek.coordinator.configs.tables import BROKER_CONFIGS, without_listener

ACCESS: Final = "that clients may do only what they are granted"
ENCRYPTION: Final = "TLS"
AUTHENTICATION: Final = "that clients authenticate themselves"
POLICY: Final = "that a class of yours checks requests"
QUOTA: Final = "that a class of yours limits clients"
PROVIDERS: Final = "that placeholders in values are replaced"


IMAGE_ONLY: Final = (
    "ssl.key.credentials",
    "ssl.keystore.credentials",
    "ssl.keystore.filename",
    "ssl.truststore.credentials",
    "ssl.truststore.filename",
)
"""Settings of variables such as KAFKA_SSL_KEYSTORE_FILENAME; Kafka's image derives ssl.keystore.location from them."""


def _each(protection: str, names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, protection)


PROTECTIONS: Final = {
    **_each(
        ACCESS,
        ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found", "principal.builder.class"),
    ),
    **_each(
        ENCRYPTION,
        (
            "security.inter.broker.protocol",
            "security.providers",
            "ssl.client.auth",
            "ssl.engine.factory.class",
            "ssl.key.password",
            *IMAGE_ONLY,
            *(name for name in BROKER_CONFIGS if name.startswith(("ssl.keystore.", "ssl.truststore."))),
        ),
    ),
    **_each(
        AUTHENTICATION,
        (
            "connections.max.reauth.ms",
            "delegation.token.secret.key",
            "sasl.client.callback.handler.class",
            "sasl.enabled.mechanisms",
            "sasl.jaas.config",
            "sasl.kerberos.service.name",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.mechanism.controller.protocol",
            "sasl.mechanism.inter.broker.protocol",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.server.callback.handler.class",
        ),
    ),
    **_each(POLICY, ("create.topic.policy.class.name", "alter.config.policy.class.name")),
    **_each(QUOTA, ("client.quota.callback.class",)),
    **_each(PROVIDERS, ("config.providers",)),
}
"""The promised protection of each setting."""

_HARMLESS: Final = {"allow.everyone.if.no.acl.found": ("true",)}
"""Values other than the default that give no protection, so that they are accepted."""

ADVICE: Final = (
    "this version has no TLS, no authentication, no access control and no plug-ins, and everybody who reaches a "
    "listener may do everything"
)
"""The reason for which such a setting is refused."""


def protection_of(name: str, text: str) -> str | None:
    """Returns the protection that the setting promises at this value, None if it promises none.

    `name` may have a listener's prefix (`listener.name.NAME.`).
    """
    base = without_listener(name) or name
    protection = PROTECTIONS.get(base)
    if protection is None or not text.strip():
        return None
    return None if text.strip().lower() in _harmless(base) else protection


def _harmless(name: str) -> Iterable[str]:
    if name in _HARMLESS:
        return _HARMLESS[name]
    definition = BROKER_CONFIGS.get(name)
    return () if definition is None else ((definition.default or "").lower(),)
