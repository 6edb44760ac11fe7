"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and each member converges by itself.

The theory is in `member_state`. Such a group may have members of the classic protocol while its consumers are being
upgraded; `groups.migration` serves their requests.
"""
