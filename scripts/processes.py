"""Servers and other programs that tests start."""
import contextlib
import socket
import subprocess


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def end(process, seconds):
    """Terminates a program, and kills it if it has not ended after so many seconds."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
