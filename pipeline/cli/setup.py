"""`odradek pipeline setup`."""

import click

from odradek.gateway.cli.output import table
from odradek.pipeline import jars
from odradek.pipeline.java import find_java
from odradek.pipeline.setup import prepare


@click.command()
@click.option("--iceberg", is_flag=True, help="Fetch what Iceberg tables need as well (48 MB).")
def setup(*, iceberg: bool) -> None:
    """Find Java, and fetch the jars of Spark's connectors where they are missing.

    The other commands do this themselves when needed. The jars are kept in $ODRADEK_JARS/spark, or in the user's cache;
    $ODRADEK_MAVEN_REPOSITORY names another repository than Maven Central.

    \b
    Example:
      odradek pipeline setup
    """
    java = find_java()
    files = prepare([*jars.KAFKA, *(jars.ICEBERG if iceberg else ())])
    table(["WHAT", "WHERE"], [["Java", str(java)], *[["jar", str(path)] for path in files]])
