"""The commands of `odradek pipeline`: one module a command, each a thin wrapper of the job of the same name."""
