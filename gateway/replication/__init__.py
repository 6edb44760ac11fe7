"""The logs of partitions on this broker: each is a pure log joined to its store by a commit queue."""
