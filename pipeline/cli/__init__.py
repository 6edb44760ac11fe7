"""The commands of `odradek pipeline`: one module per command, each a thin wrapper of the job of the same name."""
