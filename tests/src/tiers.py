"""Three tiers and a helper: clients ask an application by TCP, that asks a worker by a unix socket, that asks a helper by two
pipes, which sleeps.

Each thread writes for each request, in their order: the tier, the number of the request, how long it took it (ns), and its own id.

    tiers.py CLIENTS REQUESTS FOLDER SECONDS
"""
import json
import os
import socket
import sys
import threading
import time

CLIENTS, REQUESTS, FOLDER, SECONDS = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
# Bytes of a request, and how many times as long the answer to a client is.
LENGTH, TIMES = 16, 4
now = time.monotonic_ns


def name(text):
    with open('/proc/thread-self/comm', 'w') as file:
        file.write(text)


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def read(connection, length):
    data = b''
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            return None
        data += part
    return data


class Log:
    def __init__(self, tier):
        self.tier, self.rows = tier, []

    def add(self, request, begin, end):
        self.rows.append([self.tier, request, end - begin, threading.get_native_id()])

    def save(self):
        with open(os.path.join(FOLDER, '%s.%d' % (self.tier, threading.get_native_id())), 'w') as file:
            json.dump(self.rows, file)


def helper(requests, answers):
    name('tier-helper')
    log = Log('helper')
    while True:
        data = os.read(requests, LENGTH)
        if not data:
            break
        begin = now()
        time.sleep(SECONDS)
        os.write(answers, data)
        log.add(int(data), begin, now())
    log.save()
    os._exit(0)


def worker_connection(connection):
    name('tier-worker')
    to, back = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to[1])
        os.close(back[0])
        helper(to[0], back[1])
    os.close(to[0])
    os.close(back[1])
    log = Log('worker')
    while True:
        data = read(connection, LENGTH)
        if data is None:
            break
        begin = now()
        burn(0.0003)
        os.write(to[1], data)
        answer = os.read(back[0], LENGTH)
        assert answer == data
        connection.sendall(data)
        log.add(int(data), begin, now())
    os.close(to[1])
    os.waitpid(pid, 0)
    log.save()
    os._exit(0)


def app_connection(connection, path):
    name('tier-app')
    behind = socket.socket(socket.AF_UNIX)
    behind.connect(path)
    log = Log('app')
    while True:
        data = read(connection, LENGTH)
        if data is None:
            break
        begin = now()
        burn(0.0005)
        behind.sendall(data)
        assert read(behind, LENGTH) == data
        burn(0.0002)
        connection.sendall(data * TIMES)
        log.add(int(data), begin, now())
    log.save()


def client(number, port):
    name('tier-client')
    connection = socket.create_connection(('127.0.0.1', port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    log = Log('client')
    for turn in range(REQUESTS):
        request = number * 1000000 + turn
        begin = now()
        connection.sendall(b'%016d' % request)
        assert read(connection, LENGTH * TIMES)
        log.add(request, begin, now())
    connection.close()
    log.save()


def main():
    path = os.path.join(FOLDER, 'socket')
    behind = socket.socket(socket.AF_UNIX)
    behind.bind(path)
    behind.listen(256)
    front = socket.create_server(('127.0.0.1', 0), backlog=256)
    port = front.getsockname()[1]
    # For those who ask about it: whole or not at all.
    with open(os.path.join(FOLDER, 'port.new'), 'w') as file:
        file.write(str(port))
    os.rename(file.name, os.path.join(FOLDER, 'port'))
    worker = os.fork()
    if worker == 0:
        front.close()
        name('tier-worker')
        for _ in range(CLIENTS):
            connection, _ = behind.accept()
            if os.fork() == 0:
                worker_connection(connection)
            connection.close()
        for _ in range(CLIENTS):
            os.wait()
        os._exit(0)
    app = os.fork()
    if app == 0:
        name('tier-app')
        threads = []
        for _ in range(CLIENTS):
            connection, _ = front.accept()
            threads.append(threading.Thread(target=app_connection, args=(connection, path)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        os._exit(0)
    front.close()
    clients = []
    for number in range(CLIENTS):
        pid = os.fork()
        if pid == 0:
            client(number + 1, port)
            os._exit(0)
        clients.append(pid)
    for pid in clients + [app, worker]:
        os.waitpid(pid, 0)
    os.unlink(path)

main()
