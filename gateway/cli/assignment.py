"""`name=value` on the command line. Apart from the other options, which know the client: `serve` starts faster."""

import click


class Assignment(click.ParamType[tuple[str, str]]):
    """A `name=value` argument, converted to the pair."""

    name = "name=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first equals sign; fails as wrong usage where there is none."""
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text
