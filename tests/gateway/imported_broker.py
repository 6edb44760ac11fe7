"""The `odradek` command with all modules imported first, for tests that allow no long turn of the event loop."""

from importlib import import_module

from odradek.gateway.early_imports import late_modules


def import_late() -> None:
    """Imports what a broker imports at first use, so that no import is a long turn of its event loop."""
    for name in late_modules(is_alone=True):
        import_module(name)


if __name__ == "__main__":
    from odradek.gateway.cli.main import main

    import_late()
    main()
