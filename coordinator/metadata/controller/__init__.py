"""Decisions on a cluster's metadata: each takes the image and a request, and returns records and a reply."""
