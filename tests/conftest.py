"""What holds for all tests: properties are judged by what they find, never by how long an example took."""

from hypothesis import settings

settings.register_profile("odradek", settings.default, deadline=None)
settings.load_profile("odradek")
