"""TLS and SASL: certificates, mechanisms and logins, without the connections they are for.

Whoever connects, a client or a broker to another one, has a ``ClientSecurity``
(``client.py``). Imported only for a ``security.protocol`` other than PLAINTEXT.
"""
