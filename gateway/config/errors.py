"""A configuration that cannot be used."""


class ConfigError(Exception):
    """The operator's mistake: the message contains the setting, its source, and the allowed values.

    `setting` is the setting's name, so that a caller that has its source can add it.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting
