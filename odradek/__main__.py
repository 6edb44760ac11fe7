"""`python -m odradek` is the `odradek` command."""

from odradek.gateway.cli.main import main

if __name__ == "__main__":
    main()
