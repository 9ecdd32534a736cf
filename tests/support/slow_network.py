"""A port that passes bytes on to a server after a delay, as a network does.

It is a process of its own, so that the work of a test does not add to the delay.
"""

import queue
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PART = 1 << 16  # bytes


@contextmanager
def slow_port(server_socket, *, seconds):
    """Yield a port of the loopback that leads to a server, `seconds` each way.

    The server listens at the path `server_socket`.
    """
    command = [sys.executable, "-m", "tests.support.slow_network", str(server_socket), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()  # it ends when nobody can write to it any more
            process.wait(60)


def _pass_on(source, target, seconds):
    """Send what comes from one socket to another, each part `seconds` after it came."""
    parts = queue.SimpleQueue()

    def send():
        while True:
            due, part = parts.get()
            time.sleep(max(0.0, due - time.perf_counter()))
            with suppress(OSError):
                if not part:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(part)

    threading.Thread(target=send, daemon=True).start()
    part = b"-"
    while part:
        try:
            part = source.recv(_PART)
        except OSError:
            part = b""
        parts.put((time.perf_counter() + seconds, part))


def _serve(path, seconds):
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=_pass_on, args=(*pair, seconds), daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=_serve, args=(sys.argv[1], float(sys.argv[2])), daemon=True).start()
    sys.stdin.read()
