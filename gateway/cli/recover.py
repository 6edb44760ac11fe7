"""`odradek recover`: works on a data directory that no broker uses."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.data_options import check_there, config_option, data_option, directory_of, url_of
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.output import counted, note, table
from odradek.gateway.cli.serve import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.coordinator.metadata.settings import MetadataConfig
    from odradek.gateway.config import BrokerConfig
    from odradek.gateway.metadata.recovery import Adoption, Found
    from odradek.storage_backends.interface import Store

EPILOG = """\
\b
When the metadata log (the directory __cluster_metadata-0.…) is damaged or lost, the broker does not start. The first
command shows what can be rebuilt, the second rebuilds it; a damaged metadata log is kept under another name:
  odradek recover
  odradek recover --yes

\b
Topic names, topic ids and partition counts come from the partitions' directories. Everything else (settings, quotas,
users, partitions that were never used) is taken from what can still be read of the old metadata log. A topic whose
settings are lost gets retention.ms=-1 and retention.bytes=-1, so that none of its records is deleted: restore its
settings with `odradek topics alter`. Committed offsets and transactions are kept, because they are stored in topics.

\b
This is for a cluster of one node. In a cluster of several, a metadata log made from one node's directories would
contradict those of the others: replace the node as docs/cluster.md describes (Replace a dead node).

\b
The broker sets a log aside (its directory then ends in -stray) if its topic is not in the metadata log. The commands
above list these logs, unless the metadata log is damaged; the commands below adopt one of the topics, or delete them
(the latter also in a cluster of several nodes):
  odradek recover --adopt orders --yes
  odradek recover --delete-strays --yes

\b
Example for a topic of which some partitions were never used:
  odradek recover --partitions orders=12 --yes

\b
Exit codes: 0 done, or shown what would be done; 1 not possible (one line on stderr says why); 2 wrong usage.
"""


@click.command("recover", epilog=EPILOG)
@data_option("Directory of the data; no broker may be running on it")
@click.option(
    "--adopt", metavar="TOPIC|DIRECTORY", help="Make a topic whose logs were set aside a topic of the cluster again."
)
@click.option("--delete-strays", is_flag=True, help="Delete all logs that were set aside.")
@click.option(
    "--partitions",
    "counts",
    metavar="TOPIC=COUNT",
    type=Assignment(),
    multiple=True,
    help="The number of partitions of a topic, if some were never used and so have no directory. Repeatable.",
)
@config_option
@click.option("--set", "settings", type=Assignment(), multiple=True, help="One setting by Kafka's name. Repeatable.")
@click.option("--yes", is_flag=True, help="Make the changes. Without --yes they are only shown.")
def recover(
    *,
    data: Path | None,
    adopt: str | None,
    delete_strays: bool,
    counts: Sequence[tuple[str, str]],
    file: Path | None,
    settings: Sequence[tuple[str, str]],
    yes: bool,
) -> None:
    """Rebuild a lost metadata log from the partitions' directories; adopt or delete logs that were set aside."""
    if adopt is not None and delete_strays:
        raise click.UsageError("--adopt and --delete-strays exclude each other")
    directory = directory_of(data, file, dict(settings), command="odradek recover")
    check_there(url_of(directory))
    logging.basicConfig(format="%(levelname)s: %(message)s")
    config = load(file, dict(settings) | {"odradek.storage": url_of(directory)})
    _Recovery(config, directory, _numbers(counts), yes=yes).run(adopt, delete_strays=delete_strays)


def _numbers(counts: Sequence[tuple[str, str]]) -> "Mapping[str, int]":
    wrong = [f"{name}={text}" for name, text in counts if not text.isdecimal() or not int(text)]
    if wrong:
        raise click.UsageError(f"--partitions takes TOPIC=COUNT, not {wrong[0]}")
    return {name: int(text) for name, text in counts}


class _Recovery:
    """One run of the command."""

    def __init__(self, config: "BrokerConfig", data: Path, counts: "Mapping[str, int]", *, yes: bool) -> None:
        from odradek.gateway.env.environment import ProductionEnvironment

        self._config = config
        self._env = ProductionEnvironment(threads=1)
        self._data = data
        self._counts = counts
        self._yes = yes

    def run(self, adopt: str | None, *, delete_strays: bool) -> None:
        """Carry out what the options select. Raises CliError."""
        from odradek.gateway.metadata.recovery import RecoveryError, look, others_of
        from odradek.storage_backends.interface import StoreError

        try:
            store = self._env.open_store(self._config.storage_url)
            try:
                found = look(store)
                others = others_of(found, store, self._config.node, self._env.host_name())
                if delete_strays:
                    self._delete_strays(store, found)
                elif others and (adopt is not None or found.damage):
                    self._refuse(found, others)
                elif adopt is not None:
                    self._adopt(store, found, adopt)
                elif found.damage:
                    self._rebuild(store, found)
                else:
                    self._report(found, can_adopt=not others)
            finally:
                store.close()
        except (StoreError, RecoveryError) as error:
            raise CliError(str(error)) from error

    def _refuse(self, found: "Found", others: str) -> None:
        """Refuse what would contradict the logs of other nodes. Raises CliError."""
        from odradek.gateway.metadata.advice import advice_among_others

        damage = f"the metadata log in {self._data} cannot be used: {found.damage}. " if found.damage else ""
        what = "no metadata log can be made from its directories" if damage else "no topic can be adopted on it alone"
        advice = advice_among_others(str(self._data), is_controller=self._config.node.is_controller)
        remedy = f": {advice}" if damage else "; delete the logs that were set aside with --delete-strays, or keep them"
        raise CliError(f"{damage}This node is one of several ({others}), so {what}{remedy}")

    def _report(self, found: "Found", *, can_adopt: bool) -> None:
        topics = counted(len(found.image.topics_by_id), "topic")
        click.echo(f"The metadata log in {self._data} is intact and has {topics}: nothing has to be recovered.")
        if found.strays:
            _show_strays(found)
            choices = "Adopt a topic with --adopt TOPIC, or delete" if can_adopt else "Delete"
            note(f"{choices} all with --delete-strays.")

    def _rebuild(self, store: "Store", found: "Found") -> None:
        from odradek.gateway.metadata.cluster_id import CLUSTER_ID, PROPERTY
        from odradek.gateway.metadata.ids import random_ids, text_of
        from odradek.gateway.metadata.recovery import plan, rebuild

        config = self._metadata_config(store)
        planned = plan(found, config, self._counts)
        click.echo(f"The metadata log in {self._data} cannot be used: {found.damage}")
        click.echo(f"It can be rebuilt with {counted(len(_topics(found, planned.adoptions)), 'topic')}:")
        _show_adoptions(found, planned.adoptions)
        for key in planned.left:
            note(f"{key} with topic id {key.topic_id} is not adopted: its topic was deleted, or another has its name")
        if self._is_wanted():
            known = store.properties().get(PROPERTY) or self._config.layers.static.get(CLUSTER_ID)
            cluster_id = known or text_of(next(random_ids(self._env)))
            aside = rebuild(store, found, planned, config, cluster_id, self._env.wall_ms())
            if aside:
                note(f"The damaged metadata log is kept as {self._data / aside}.")
            click.echo("The metadata log is rebuilt: start the broker, then check the settings shown above.")

    def _adopt(self, store: "Store", found: "Found", name: str) -> None:
        from odradek.gateway.metadata.recovery import adopt, adoption_of

        if found.damage:
            raise CliError(
                f"the metadata log cannot be used ({found.damage}): run `odradek recover` without --adopt first"
            )
        config = self._metadata_config(store)
        adoption = adoption_of(found, name, config, self._counts)
        click.echo("One topic can be adopted:")
        _show_adoptions(found, [adoption])
        if self._is_wanted():
            adopt(store, found, adoption, config, self._env.wall_ms())
            click.echo(f"{adoption.name} is a topic of the cluster again.")

    def _delete_strays(self, store: "Store", found: "Found") -> None:
        if not found.strays:
            click.echo("No log was set aside: nothing has to be deleted.")
            return
        _show_strays(found)
        if self._is_wanted():
            for stray in found.strays:
                store.delete_stray(stray.name)
            click.echo(f"Deleted {counted(len(found.strays), 'log')}.")

    def _metadata_config(self, store: "Store") -> "MetadataConfig":
        """The settings under which topics are adopted, as those of the node whose store it is."""
        from odradek.coordinator.metadata.settings import MetadataConfig
        from odradek.gateway.metadata.node_id import stored_node_id

        node_id = stored_node_id(store.properties(), self._config.node_id)
        return MetadataConfig(node_id, self._config.layers.static)

    def _is_wanted(self) -> bool:
        if not self._yes:
            note("Nothing was changed: add --yes to do it.")
        return self._yes


def _topics(found: "Found", adoptions: "Sequence[Adoption]") -> set[str]:
    return {*found.image.topics_by_name, *(each.name for each in adoptions)}


def _show_adoptions(found: "Found", adoptions: "Sequence[Adoption]") -> None:
    by_name = {each.name: each for each in adoptions}
    rows: list[tuple[str, int, int, str]] = []
    for name in sorted(_topics(found, adoptions) if found.damage else by_name):
        adoption = by_name.get(name)
        known = found.image.topic(name)
        if adoption is None:
            rows.append((name, len(known.partitions) if known is not None else 0, 0, "as they were"))
        else:
            settings = ",".join(f"{key}={value}" for key, value in adoption.configs.items())
            rows.append(
                (name, adoption.partitions, len(adoption.present), settings if adoption.is_new else "as they were")
            )
    table(("TOPIC", "PARTITIONS", "WITH A LOG", "SETTINGS"), rows)
    if any(each.is_new and len(each.present) < each.partitions for each in adoptions):
        note("Partitions without a log start empty.")
    if any(each.is_new for each in adoptions):
        note(
            "Only partitions that were used have directories: if a topic has more, give its number of partitions with "
            "--partitions TOPIC=COUNT."
        )


def _show_strays(found: "Found") -> None:
    table(("TOPIC", "PARTITION", "DIRECTORY"), [(each.key.topic, each.key.index, each.name) for each in found.strays])
