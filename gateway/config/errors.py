"""A configuration that cannot be used."""


class ConfigError(Exception):
    """The operator's mistake: the message names the setting, where it was set, and what is allowed.

    `setting` is the setting's name, so that a caller that knows its source can add it.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting
