"""What Kafka keeps in logs of its own: the records of its internal topics, declared field by field.

``group_records`` is ``__consumer_offsets``, ``transaction_records`` is ``__transaction_state``,
``metadata_records`` is the metadata log of KRaft clusters.
"""
