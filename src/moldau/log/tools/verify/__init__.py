"""Checking log directories that no broker is using: what is wrong, where, and what a start does.

for finding in Verification(["data"], deep=True).run():
    print(finding.path, finding.problem, finding.at_start)
"""

from moldau.log.tools.verify.findings import Finding, Level, Totals
from moldau.log.tools.verify.verification import DirectoryInUseError, Verification

__all__ = ["DirectoryInUseError", "Finding", "Level", "Totals", "Verification"]
