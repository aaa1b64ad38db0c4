"""The exactly-once streaming sink.

``decision`` (what is written down), ``protocol`` (the order of the steps and what may be done in
each) and ``errors`` are pure: ``protocol`` runs over an interface, in tests over a model of a
cluster. ``ledger`` (the topic of decisions) and ``endings`` (EndTxn and looking at transactions)
are that interface over the client, and ``session`` has the connections; ``task`` writes the rows,
``writer`` is what Spark sees.
"""
