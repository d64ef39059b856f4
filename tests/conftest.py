"""What holds for all tests."""

from hypothesis import settings

# Time is no property of the code: a busy machine must not fail a test. Speed has its own tests, which count work.
settings.register_profile("accumlint", deadline=None)
settings.load_profile("accumlint")
