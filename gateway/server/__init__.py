"""Connections and requests: accepts and reads connections, dispatches requests, sends replies in order."""
