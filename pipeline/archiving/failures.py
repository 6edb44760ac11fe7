"""Decides which failures of a batch end the job, and which are retried."""

import errno
from typing import Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.log import FencedError
from odradek.pipeline.wire_client import TopicGoneError

PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""The pauses before retries of a batch, in seconds: about half a minute in total, enough for a broker to start."""
_NO_SPACE: Final = "No space left on device"


def final(error: Exception, place: str) -> PipelineError | None:
    """Return the error to end the job with; None if a retry may succeed. Raises `error` if its kind is unknown."""
    if isinstance(error, FencedError | TopicGoneError):
        return error
    if _NO_SPACE in str(error) or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return PipelineError(
            f"{place}: no space left on the device. All that the last report counted is in the table; make space and "
            "run the same command again, which goes on from there"
        )
    if isinstance(error, PermissionError):
        return PipelineError(str(error))
    if isinstance(error, PipelineError | OSError) or _is_of_spark(error):
        return None
    raise error


def reason(error: Exception) -> str:
    """Return the cause of a failure in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0][:500]


def _is_of_spark(error: Exception) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    return isinstance(error, Py4JError | PySparkException) and not isinstance(error, AnalysisException)
