"""The conformance suite that holds every backend to `storage_backends.interface`, for this project's and for others.

In a test module, define the fixture `store_factory` (see `medium.StoreFactory`) and subclass the suite:

    from odradek.storage_backends.testing.conformance import StoreConformance

    @pytest.fixture
    def store_factory(tmp_path):
        return lambda: DirectoryMedium(tmp_path)

    class TestMyStore(StoreConformance): ...

It needs pytest and hypothesis, which are not dependencies of the package; so nothing of it is imported here.
"""
