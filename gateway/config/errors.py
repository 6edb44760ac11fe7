"""A configuration that cannot be used."""


class ConfigError(Exception):
    """The operator's mistake: the message names the setting, where it was set, and what is allowed."""
