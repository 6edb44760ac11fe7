"""Regular expressions in RE2's syntax, matched in time linear in the text.

Clients choose the expressions, so neither Python's backtracking engine nor its syntax will do: what one broker takes,
Kafka takes, and no expression can keep a broker busy, for the work of a matcher is bounded. Texts are names of topics
and transactional ids. An expression matches a text as a whole; sets of characters are RE2/J's, of Unicode 6.0.
"""

from odradek.coordinator.regex.matcher import Matcher, TooManySteps
from odradek.coordinator.regex.syntax import InvalidRegex

__all__ = ["InvalidRegex", "Matcher", "TooManySteps"]
