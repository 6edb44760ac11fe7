"""The metadata of the cluster on this broker: its log, the published image, settings in force, start and recovery."""
