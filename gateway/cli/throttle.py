"""Throttles of a reassignment (KIP-73): sets and removes the configs that Kafka's kafka-reassign-partitions sets.

As with Kafka's tool, the rate is set on every broker that has or will have a replica of a moved partition. Each topic's
configs list the throttled replicas: the current ones for leaders, the new ones for followers. Earlier values of these
configs are overwritten.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.gateway.cli.client import Admin, library
from odradek.gateway.cli.errors import CliError, client_error_text, explained
from odradek.gateway.cli.replica_plan import Partition, Replicas

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

_Changes = Mapping[str, tuple[str, str | None]]


def throttled_replicas(held: Replicas, plan: Replicas) -> dict[str, dict[str, str]]:
    """For each topic, the values of the two configs that list throttled replicas."""
    entries: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, index), after in plan.items():
        leaders, followers = entries.setdefault(topic, ([], []))
        before = held[topic, index]
        leaders += [f"{index}:{broker}" for broker in before]
        followers += [f"{index}:{broker}" for broker in after if broker not in before]
    return {
        topic: {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in entries.items()
    }


def brokers_of(held: Replicas, plan: Replicas) -> list[int]:
    """The brokers that have replicas of the plan's partitions, before or after the move."""
    return sorted({broker for place, after in plan.items() for broker in (*after, *held[place])})


def set_throttle(admin: Admin, held: Replicas, plan: Replicas, brokers: Sequence[int], bytes_per_s: int) -> None:
    """Throttle the replication of the plan's partitions at `brokers`, which must serve. Raises CliError."""
    for topic, values in throttled_replicas(held, plan).items():
        _alter(admin, "topic", topic, {name: ("SET", value) for name, value in values.items()})
    for broker in brokers:
        _alter(admin, "broker", str(broker), {name: ("SET", str(bytes_per_s)) for name in RATES})


def remove_throttle(admin: Admin, places: Iterable[Partition], brokers: Sequence[int]) -> list[str]:
    """Remove the throttles of these topics and brokers, if there are any; returns a text for each that stays.

    A broker's configs are changed only by itself, so that those of one that does not serve stay.
    """
    topics = sorted({topic for topic, _ in places})
    changed = [("topic", topic, (LEADERS, FOLLOWERS)) for topic in topics]
    changed += [("broker", str(broker), RATES) for broker in brokers]
    return [left for kind, name, configs in changed if (left := _removed(admin, kind, name, configs))]


def _removed(admin: Admin, kind: str, name: str, configs: Sequence[str]) -> str | None:
    try:
        _alter(admin, kind, name, dict.fromkeys(configs, ("DELETE", None)))
    except CliError as error:
        cause = error.format_message()
    except library().errors.KafkaError as error:
        known = explained(error)
        cause = f"{kind} {name!r}: {known.format_message() if known else error}"
    else:
        return None
    unset = " ".join(f"--unset {config}" for config in configs)
    return f"the throttle stays, {cause}; later: odradek configs alter {kind} {name} {unset}"


def _alter(admin: Admin, kind: str, name: str, changes: _Changes) -> None:
    resource = library().admin.ConfigResource(kind, name, dict(changes))
    outcome = admin.alter_configs([resource], raise_on_unknown=False)[kind][name]
    if outcome != "OK":
        raise CliError(f"{kind} {name!r}: {client_error_text(outcome)}")
