"""Settings: what can be set, what holds, and what is said about it. Nothing is imported from here.

- The framework, which clients share: ``option`` (one ``Option`` per setting, in classes of
  ``Options``), ``declare`` (the words for it), ``types``, ``validators``, ``markdown`` (pages of
  options), ``properties`` (Java's file format).
- ``options/``: the tables of brokers, topics and groups, and what is accepted without effect.
- ``values/``: what holds for a broker (``BrokerConfig``), a topic and a group.
- ``describing/``: what DescribeConfigs answers. ``altering/``: what may be changed at run time.
- ``docs``: the page ``docs/configuration.md``.

    config = BrokerConfig.load("server.properties", {"num.partitions": "3"})
    config.num_partitions                                   # 3, an int for the type checker too
    config.topic_defaults.override({"retention.ms": "60000"}).retention_ms
"""
