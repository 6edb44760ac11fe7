"""`python -m gateway` is the `odradek` command."""

from gateway.cli.main import main

if __name__ == "__main__":
    main()
