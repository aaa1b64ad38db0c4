"""What the machine gives a program, as interfaces, and the one object that holds them all."""

from moldau.machine.clock import Clock, Timer
from moldau.machine.disk import Buffer, Disk, DiskUsage, File, FileSlice
from moldau.machine.machine import Machine
from moldau.machine.network import Acceptor, Incoming, Network, Part, Receiver, Transport
from moldau.machine.processes import ChildProcess, ChildProgram, Pause, Processes
from moldau.machine.threads import DaemonThreads, RunInThread, Threads

__all__ = [
    "Acceptor",
    "Buffer",
    "ChildProcess",
    "ChildProgram",
    "Clock",
    "DaemonThreads",
    "Disk",
    "DiskUsage",
    "File",
    "FileSlice",
    "Incoming",
    "Machine",
    "Network",
    "Part",
    "Pause",
    "Processes",
    "Receiver",
    "RunInThread",
    "Threads",
    "Timer",
    "Transport",
]
