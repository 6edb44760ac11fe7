"""One module per API, named as in `wire/messages`; none imports another."""
