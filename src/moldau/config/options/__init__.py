"""The tables: what ``server.properties``, a topic and a group can be told, with Kafka's defaults.

``broker.py`` puts the broker's sections together. Each module stands alone, so that a client that
shares an option with brokers does not load the others.
"""
