"""Options of the scripted tests of coordinators."""


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write what scripts lead to into the script files")
