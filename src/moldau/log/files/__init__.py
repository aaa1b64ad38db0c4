"""Names and contents of the small files in log directories. They are Kafka's."""
