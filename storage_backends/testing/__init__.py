"""The conformance suite of `storage_backends.interface`, for the backends of this project and for others.

In a test module, define the fixture `store_factory` (see `medium.StoreFactory`) and subclass the suite:

    from odradek.storage_backends.testing.conformance import StoreConformance

    @pytest.fixture
    def store_factory(tmp_path):
        return lambda: DirectoryMedium(tmp_path)

    class TestMyStore(StoreConformance): ...

It requires pytest and hypothesis, which are not dependencies of the package; so its modules are not imported here.
"""
