"""A broker's lifecycle in its cluster (KIP-631): registration, heartbeats, service while unfenced, shutdown.

    start ─► registered, fenced ──image has the registration──► unfenced ──stop──► leaders move away ─► released
                   ▲                        ▲                      │
                   │                        └──session expired─────┘
                   └── the controller no longer has the registration

- A registration has an incarnation id, new at every start, and the epoch of the previous incarnation if its shutdown
  was clean: only then are its logs known to be complete (KIP-966). The epoch is a property of the store that is removed
  when the broker starts and written when all logs are closed.
- A heartbeat has the offset of the broker's image. The controller unfences a broker whose image has its registration,
  since the image then has all partitions that it hosts. Clients are accepted once the image shows it as unfenced.
- It leads no partitions from images without its registration: those leaderships are its previous incarnation's, which
  may have lost records in a power cut, and other records at their offsets in the same leader epoch would make the logs
  of two replicas differ unnoticed (`incarnation.py`).
- A broker that cannot write a log that it leads for `broker.session.timeout.ms`, while another replica is in sync,
  requests to be fenced and ends, like a Kafka broker whose disk fails. It must not continue: if its metadata log cannot
  be written either, it would direct clients to former leaders and coordinators.
- A broker that stops sets `want_shut_down` in its heartbeats. The controller moves its leaderships to other brokers,
  and releases it once their images have that; until then the broker serves.
- The broker of a sole voter whose image has no other broker is registered as it starts (`metadata/starting.py`), and
  sends no heartbeats. When the image has another broker, it behaves as all others do: it registers again, as the same
  incarnation, and the controller runs its periodic tasks. If it starts with others in the image, it registers as they
  do.
"""

from odradek.gateway.lifecycle.clean_end import CleanEnd
from odradek.gateway.lifecycle.incarnation import Incarnation
from odradek.gateway.lifecycle.node import NodeLife

__all__ = ["CleanEnd", "Incarnation", "NodeLife"]
