"""Settings: every option of broker and topic, declared once."""

from moldau.config.topic_values import TopicConfig

__all__ = ["TopicConfig"]
