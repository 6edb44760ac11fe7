"""A broker's life in its cluster (KIP-631): it registers, sends heartbeats, serves while it is unfenced, and leaves.

    start ─► registered, fenced ──image has the registration──► unfenced ──stop──► leaders move away ─► released
                   ▲                        ▲                      │
                   │                        └──session was over────┘
                   └── the controller does not know the registration any more

- A registration has an incarnation id, new at every start, and the epoch of the incarnation before if that has ended in
  order: only then are its logs known to hold all that they held (KIP-966). The epoch is a property of the store that is
  taken out when the broker starts and put back when all logs are closed.
- A heartbeat tells how far the broker's image is. The controller unfences a broker whose image has its registration: it
  knows then of everything that it is to do. Clients are accepted from then on.
- A broker that has not been able to write a log that it leads for `broker.session.timeout.ms`, while another replica is
  in sync, has itself fenced and ends, as a broker of Kafka does whose disk fails. It must not serve on: where its
  metadata log cannot be written either, it would send clients to leaders and coordinators of long ago.
- A broker that stops says so in its heartbeats. The controller gives its partitions to others, and releases it once
  they know; until then the broker serves.
- The broker of a sole voter that knows no other is registered as it starts (`metadata/starting.py`), and sends no
  heartbeats. As soon as the image has another broker, it lives as all others do: it registers once more, as the same
  incarnation, and the controller keeps house. When it starts among others, it registers as they do.
"""

from odradek.gateway.lifecycle.clean_end import CleanEnd
from odradek.gateway.lifecycle.node import NodeLife

__all__ = ["CleanEnd", "NodeLife"]
