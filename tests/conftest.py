"""Settings of properties: they have no deadline per example."""

from hypothesis import settings

settings.register_profile("odradek", settings.default, deadline=None)
settings.load_profile("odradek")
