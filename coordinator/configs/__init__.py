"""Kafka's topic, broker and group configs: definitions, values, rules for changes, descriptions.

`definition` has the type of a config and the `*_defs` modules have the tables of all configs; `layers` computes values
from the texts that were set; `validation` and `operations` check and apply changes; `describe` serves DescribeConfigs.
Pure: text in, values out.
"""
