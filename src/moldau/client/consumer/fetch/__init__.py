"""Fetching: sessions, what came and is not handed out yet, and the requests themselves."""
