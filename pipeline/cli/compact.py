"""`odradek pipeline compact`."""

import click

from odradek.gateway.cli.options import Text
from odradek.gateway.cli.output import meter, note
from odradek.pipeline.cli.options import JobContext, spark_options
from odradek.pipeline.cli.sizes import Size


@click.command()
@click.argument("path", type=Text())
@click.option(
    "--target-size",
    metavar="SIZE",
    type=Size(),
    default="128MB",
    show_default=True,
    help="About how large files become.",
)
@spark_options
def compact(path: str, *, job: JobContext, target_size: int) -> None:
    """Merge the small files of an archived table, also while an archive job runs.

    Running queries may fail and have to be repeated; later ones read the same records.

    \b
    Examples:
      odradek pipeline archive hello --to ./hello-table
      odradek pipeline compact ./hello-table --target-size 256MB
    """
    from odradek.pipeline.compacting import compact as run

    spark = job.spark()
    with meter("compacting", None, shown=not job.as_json) as bar:
        report = run(spark, path, target_size_bytes=target_size, meter=bar)
    job.finish(report)
    note("{files_before} files before, {files_merged} of them merged, {files_after} now".format(**report.details))
