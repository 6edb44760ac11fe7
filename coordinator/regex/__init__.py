"""Regular expressions in RE2's syntax, matched in time linear in the text.

Clients choose the expressions, so neither Python's backtracking engine nor its syntax can be used: Kafka accepts RE2's
syntax, and the work of a matcher must be bounded so that no expression can keep a broker busy. The texts are topic
names and transactional ids. An expression must match the whole text; character classes are RE2/J's, of Unicode 6.0.
"""

from odradek.coordinator.regex.matcher import Matcher, TooManySteps
from odradek.coordinator.regex.syntax import InvalidRegex

__all__ = ["InvalidRegex", "Matcher", "TooManySteps"]
