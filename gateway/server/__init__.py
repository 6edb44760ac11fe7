"""The way of a request: connections are accepted and read, requests dispatched, replies written in order."""
