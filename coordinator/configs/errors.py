"""Why a config or a change of configs is refused, as Kafka's error code and message."""

from wire.errors import ErrorCode


class ConfigRefusedError(Exception):
    """A name or value is not allowed; `code` and the message go to the client as they are."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def bad_value(name: str, value: object, why: str) -> ConfigRefusedError:
    """The refusal of one value, in Kafka's form."""
    return ConfigRefusedError(f"Invalid value {value} for configuration {name}: {why}")
