"""Regular expressions in RE2's syntax over topic names, matched in time linear in the name.

Clients choose the expressions, so neither Python's backtracking engine nor its syntax will do: what one broker takes,
Kafka takes, and no expression can keep the coordinator busy. Names of topics have 65 characters, all ASCII; that keeps
character classes small. An expression matches a name as a whole.
"""

from coordinator.groups.consumer.regex.matcher import Matcher
from coordinator.groups.consumer.regex.syntax import InvalidRegex

__all__ = ["InvalidRegex", "Matcher"]
