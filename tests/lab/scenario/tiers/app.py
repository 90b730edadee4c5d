"""An application between a proxy and a store: a process for each connection, which asks the store once for each request.

Each process writes for each request, in their order: the tier, the number of the request, how long it took it without the
store (ns), and its own id.

    app.py PORT STORE FOLDER MILLISECONDS CPU

MILLISECONDS is how long it sleeps for each request; it runs on CPU alone, or on all where that is -1.
"""
import json
import os
import signal
import socket
import sys
import time

PORT, STORE, FOLDER, SECONDS, CPU = (
    int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]) / 1000, int(sys.argv[5]))
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n'
now = time.monotonic_ns


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    store = socket.create_connection(('127.0.0.1', STORE))
    store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    rows = []
    while True:
        data = connection.recv(4096)
        if not data:
            break
        begin = now()
        number = data.split(b' ', 2)[1][1:]
        burn(0.0002)
        if SECONDS:
            time.sleep(SECONDS)
        asked = now()
        store.sendall(b'INCR requests\r\n')
        assert store.recv(64).startswith(b':')
        answered = now()
        connection.sendall(ANSWER)
        end = now()
        rows.append(['app', int(number), end - begin - (answered - asked), os.getpid()])
    with open(os.path.join(FOLDER, 'app.%d' % os.getpid()), 'w') as file:
        json.dump(rows, file)


def main():
    if CPU >= 0:
        # In a session, and so in an autogroup, of its own with one CPU: Linux 6.18 can let a group that works on several CPUs
        # keep one of them from all others for minutes.
        os.setsid()
        os.sched_setaffinity(0, [CPU])
    front = socket.create_server(('127.0.0.1', PORT), backlog=256)
    children = []
    # The proxy's connections end before this, and with them the children, which write what they know.
    signal.signal(signal.SIGTERM, lambda *_: front.close())
    while True:
        try:
            connection, _ = front.accept()
        except OSError:
            break
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            front.close()
            serve(connection)
            os._exit(0)
        connection.close()
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


main()
