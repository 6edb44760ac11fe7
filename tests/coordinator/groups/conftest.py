"""Lets the tests in the folders below import the helpers of this one."""
