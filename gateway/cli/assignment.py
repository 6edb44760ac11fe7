"""`name=value` on the command line. Separate from `options.py`, which imports the client: so `serve` starts faster."""

import click


class Assignment(click.ParamType[tuple[str, str]]):
    """A `name=value` argument, converted to the pair."""

    name = "name=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first equals sign; wrong usage if there is none."""
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text
