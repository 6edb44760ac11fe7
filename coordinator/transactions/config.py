"""The transaction settings of a broker: Kafka's names, Kafka's defaults."""

from odradek.wire.values import immutable


@immutable
class TransactionConfig:
    """The broker configs that the transaction coordinator reads (dots become underscores)."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
