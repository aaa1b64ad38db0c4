"""Record batches: the unit in which records are sent, stored and fetched (message format v2)."""

from moldau.records.source import prefer_source_if_asked

prefer_source_if_asked(__name__)
