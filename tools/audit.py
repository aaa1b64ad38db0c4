"""Known vulnerabilities in what a release installs (``constraints.txt``), by pip-audit.

    python tools/audit.py

Ends with 1 if there are any, or if the tool fails. What could not be looked up, because nobody here
answers for the vulnerability service, is no reason to fail, but it is said: pip-audit itself takes
packages that a mirror of the registry knows nothing about for good ones.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

CONSTRAINTS: Final = Path(__file__).parents[1] / "constraints.txt"
_COMMAND: Final = ("--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off")
_NO_ANSWER: Final = re.compile(
    r"requests\.exceptions\.\w+|urllib3\.exceptions\.\w+|Could not connect|Connection ?Error|"
    r"timed out",
    re.IGNORECASE,
)


class Verdict(NamedTuple):
    exit_code: int
    text: str


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(CONSTRAINTS), *_COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict = judge(done.stdout, done.stderr)
    print(verdict.text)
    return verdict.exit_code


def judge(output: str, errors: str) -> Verdict:
    """What pip-audit's report and its complaints mean."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        said = errors.strip().rpartition("\n")[2] or "it says nothing"
        if _NO_ANSWER.search(errors):
            return Verdict(0, f"NOT AUDITED: no vulnerability service answers here ({said})")
        return Verdict(1, f"pip-audit failed:\n{errors.strip() or said}")
    vulnerable = [package for package in packages if package.get("vulns")]
    if vulnerable:
        return Verdict(1, "\n".join(_finding(package) for package in vulnerable))
    unknown = [package["name"] for package in packages if "vulns" not in package]
    if len(unknown) == len(packages):
        return Verdict(
            0, f"NOT AUDITED: the registry knows nothing about any of {len(packages)} packages"
        )
    audited = f"{len(packages) - len(unknown)} packages have no known vulnerability"
    if unknown:
        audited += f"; NOT AUDITED: {', '.join(unknown)}"
    return Verdict(0, audited)


def _finding(package: dict[str, Any]) -> str:
    found = ", ".join(
        f"{one['id']} (fixed in {', '.join(one.get('fix_versions', ())) or 'no version yet'})"
        for one in package["vulns"]
    )
    return f"{package['name']} {package['version']}: {found}"


if __name__ == "__main__":
    sys.exit(main())
