"""Kafka's topic, broker and group configs: definitions, values, rules for changes, descriptions.

`definition` says what a config is and the `*_defs` tables which there are; `layers` computes values from what was set;
`validation` and `operations` judge and apply changes; `describe` answers DescribeConfigs. Pure: text in, values out.
"""
