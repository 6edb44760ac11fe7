"""The `ODRADEK_*` environment variables: which are settings, and which have another use."""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from odradek.coordinator.configs.tables import BROKER_CONFIGS, broker_definition
from odradek.gateway.data_urls import url_of_directory

log = logging.getLogger(__name__)

PREFIX: Final = "ODRADEK_"

AS_OPTIONS: Final = {"ODRADEK_LISTEN": "--listen", "ODRADEK_ADVERTISE": "--advertise", "ODRADEK_DATA": "--data"}
"""Variables equivalent to an option of `odradek serve`; the option takes precedence."""

READ_BY_COMMANDS: Final = frozenset(
    (
        "ODRADEK_BOOTSTRAP",
        "ODRADEK_CONFIG",
        "ODRADEK_LOG_FORMAT",
        "ODRADEK_LOG_LEVEL",
        "ODRADEK_MAVEN_REPOSITORY",
    )
)
"""Variables that the command line reads itself."""

DEVELOPMENT: Final = frozenset(
    (
        "ODRADEK_CLIENT_TESTS",
        "ODRADEK_CLUSTER_CLIENTS",
        "ODRADEK_COMPAT_STORAGE",
        "ODRADEK_COMPAT_SUBJECT",
        "ODRADEK_FUZZ_SEED",
        "ODRADEK_GO",
        "ODRADEK_GROUP_SEEDS",
        "ODRADEK_HIDDEN_FACILITIES",
        "ODRADEK_IMAGE",
        "ODRADEK_JARS",
        "ODRADEK_KAFKA_PROVIDER",
        "ODRADEK_LONG_TESTS",
        "ODRADEK_NO_GO",
        "ODRADEK_NO_JAVA",
        "ODRADEK_NO_KCAT",
        "ODRADEK_NO_POSTGRES",
        "ODRADEK_PORT_1",
        "ODRADEK_PORT_2",
        "ODRADEK_PORT_3",
        "ODRADEK_SEED",
        "ODRADEK_SEEDS",
    )
)
"""Variables of tests, scripts and the compose file; `tests/gateway/config/test_variables.py` checks the list."""


def settings_of(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, setting, text) of the variables that are settings; a later one of the same setting wins.

    Variables of options are yielded first, so `ODRADEK_STORAGE` takes precedence over `ODRADEK_DATA`.
    """
    for variable in AS_OPTIONS:
        if environ.get(variable):  # an empty one counts as not set, as for options
            yield variable, *option_setting(AS_OPTIONS[variable], environ[variable])
    for variable, text in sorted(environ.items()):
        name = setting_name(variable)
        if name is not None:
            yield variable, name, text


def option_setting(option: str, text: str) -> tuple[str, str]:
    """The setting, and its text, that an option of `odradek serve` stands for."""
    if option == "--data":
        from pathlib import Path

        return "odradek.storage", url_of_directory(Path(text).absolute())
    return {"--listen": "listeners", "--advertise": "advertised.listeners"}[option], f"PLAINTEXT://{text}"


def setting_name(variable: str) -> str | None:
    """The setting of an `ODRADEK_*` variable: ours if there is one, else Kafka's; None for all others."""
    if not variable.startswith(PREFIX):
        return None
    name = dotted(variable.removeprefix(PREFIX))
    if f"odradek.{name}" in BROKER_CONFIGS:
        return f"odradek.{name}"
    return name if broker_definition(name) is not None else None


def dotted(name: str) -> str:
    """The official image's rule: `_` is a dot, `__` an underscore, `___` a hyphen."""
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def warn_of_unknown_variables(environ: Mapping[str, str]) -> None:
    """Log a warning for each `ODRADEK_*` variable that is unknown."""
    known = {*AS_OPTIONS, *READ_BY_COMMANDS, *DEVELOPMENT}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known and setting_name(variable) is None:
            log.warning("unknown variable ignored name=%s%s", variable, _suggestion(variable))


def _suggestion(variable: str) -> str:
    import difflib

    settings = (name.removeprefix("odradek.").replace(".", "_").upper() for name in BROKER_CONFIGS)
    candidates = [*(known.removeprefix(PREFIX) for known in (*AS_OPTIONS, *sorted(READ_BY_COMMANDS))), *settings]
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), candidates, n=1)
    return f" did_you_mean={PREFIX}{close[0]}" if close else ""
