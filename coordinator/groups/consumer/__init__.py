"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and members converge one by one.

`member_state` tells the theory. Classic members may be part of such a group while it is on its way from one protocol
to the other (`classic_members`, `migration`).
"""
