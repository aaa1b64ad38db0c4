"""A secured cluster: one table of settings for all that the application connects."""

from __future__ import annotations

from pathlib import Path

from moldau.mailalert.settings import load_settings


def test_security_settings_are_for_all_clients(tmp_path: Path) -> None:
    path = tmp_path / "mailalert.toml"
    path.write_text(
        'recipients = ["ops@example.org"]\n'
        "[kafka]\n"
        '"security.protocol" = "SSL"\n'
        '"ssl.ca.location" = "authority.pem"\n'
        '"fetch.min.bytes" = 1000\n'
    )
    assert load_settings(path).security() == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "authority.pem",
    }
