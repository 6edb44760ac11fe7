"""Shortcuts in Spark's workers: they apply only there, and imports work as before."""

import gc
import importlib
import sys
import zipfile
from importlib.machinery import ModuleSpec
from types import ModuleType
from zipimport import zipimporter

import pytest

from odradek.pipeline import worker


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Spark's zip file and one of `--py-files`, on the path and in use."""
    names = {"of_spark": tmp_path / "python" / "lib" / "pyspark.zip", "of_user": tmp_path / "user.zip"}
    for name, path in names.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", "")
            archive.writestr(f"{name}_later.py", "")
        monkeypatch.syspath_prepend(str(path))
    for name in names:
        importlib.import_module(name)
    yield {name: str(path) for name, path in names.items()}
    for module in [module for module in sys.modules if module.startswith(tuple(names))]:
        del sys.modules[module]


@pytest.fixture(autouse=True)
def _nothing_frozen():
    """What the tests' collection has frozen is let go; the next test freezes it again (conftest.py)."""
    gc.unfreeze()


@pytest.fixture
def in_a_worker(monkeypatch):
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    yield
    gc.unfreeze()


def kept(archives):
    return {name for name, path in archives.items() if isinstance(sys.path_importer_cache.get(path), zipimporter)}


def test_a_worker_reads_the_directory_of_sparks_zip_file_once(archives, in_a_worker):
    assert kept(archives) == {"of_spark", "of_user"}
    worker.spare_worker()
    assert kept(archives) == {"of_user"}
    importlib.import_module("of_spark_later")
    assert kept(archives) == {"of_spark", "of_user"}


def test_a_worker_does_not_look_for_garbage_among_its_modules(in_a_worker):
    worker.spare_worker()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    kept_alive = [[] for _ in range(100)]
    worker.spare_worker()
    assert gc.get_freeze_count() <= frozen
    assert len(kept_alive) == 100


def test_other_processes_are_left_alone(archives):
    worker.spare_worker()
    assert kept(archives) == {"of_spark", "of_user"}
    assert gc.get_freeze_count() == 0
