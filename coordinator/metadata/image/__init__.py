"""The metadata image: the state in a cluster's metadata log, and its conversion from and to records."""
