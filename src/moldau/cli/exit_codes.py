"""What a command ends with, and the sentence that it says about a failure.

0    done
1    failed; the sentence on stderr says why
2    wrong usage: an unknown option, a value that cannot be read
3    no broker could be reached
4    the topic, partition, group or broker does not exist
5    the cluster did not answer in time
130  interrupted with Ctrl-C; 143: by SIGTERM, where that is no way to end a command
"""

from __future__ import annotations

from enum import IntEnum

from moldau.errors import ErrorCode, KafkaError


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    NOT_FOUND = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


class CommandError(Exception):
    """A failure that the command has already put into words."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command line itself makes no sense."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


_BY_CODE = {
    ErrorCode.NETWORK_EXCEPTION: ExitCode.CANNOT_CONNECT,
    ErrorCode.BROKER_NOT_AVAILABLE: ExitCode.CANNOT_CONNECT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ExitCode.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: ExitCode.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.REQUEST_TIMED_OUT: ExitCode.TIMED_OUT,
}


def exit_code_of(error: BaseException) -> ExitCode:
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, KafkaError):
        return _BY_CODE.get(error.code, ExitCode.FAILURE)
    return ExitCode.FAILURE


def sentence_for(error: BaseException) -> str:
    """One line for people: what failed, and the error's Kafka name for those who look it up."""
    if isinstance(error, KafkaError):
        name = error.code.name
        text = error.message or name.replace("_", " ").capitalize()
        # What this side found out needs no code to look up.
        if not _found_out_here(error) and name not in text:
            text = f"{text.rstrip('.')} ({name})"
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}"
    elif isinstance(error, CommandError):
        text = str(error)
    else:
        text = f"Unexpected {type(error).__name__}: {error} (--debug shows where)"
    text = " ".join(text.split())
    return text if text.endswith((".", "?", "!", ")")) else f"{text}."


def _found_out_here(error: KafkaError) -> bool:
    """Returns whether no broker answered with it. Imports wait for a failure: ``--help`` has
    none.
    """
    from moldau.config.option import ConfigError

    if isinstance(error, ConfigError):
        return True
    from moldau.client.errors import ClientError

    return isinstance(error, ClientError)
