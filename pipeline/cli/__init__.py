"""The commands of `odradek pipeline`, and `odradek mirror`: a module for each, which calls the job of the same name."""
