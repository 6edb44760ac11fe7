"""The broker inside a test (`in_process`, public as `odradek.testing`) and the simulation of a whole broker."""
