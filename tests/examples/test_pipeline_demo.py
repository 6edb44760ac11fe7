"""`make pipeline-demo`, on a part of the flights."""

import os
import subprocess
import sys

import pytest

from examples.flights.processes import ROOT


@pytest.mark.skipif(os.environ.get("ODRADEK_NO_JAVA") == "1", reason="no Java here (ODRADEK_NO_JAVA=1)")
@pytest.mark.timeout(300)
def test_everything_comes_back(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.flights_pipeline", "--limit", "1000", "--output", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("identical, 1,000 records compared") == 3
    assert "identical in counts, order and bytes" in done.stdout
    assert "<svg" in (tmp_path / "pipeline.html").read_text()
    assert "<svg" in (tmp_path / "audit.html").read_text()
