"""Communicates with itself in every way that is recorded, by a known number of calls, and prints what it knows of it.

Files of communication have descriptors from 100 on, which no other file ever has.
"""

import ctypes
import json
import os
import select
import signal
import socket
import threading
import time

ROUNDS = 20
libc = ctypes.CDLL(None, use_errno=True)
facts = {}
next_fd = [100]


def high(fd):
    """The same file under a number of its own."""
    wanted = next_fd[0]
    next_fd[0] += 1
    os.dup2(fd, wanted)
    os.close(fd)
    return wanted


def sockets(pair):
    return [socket.socket(fileno=high(one.detach())) for one in pair]


def inode(fd):
    return os.stat(fd).st_ino


def device(fd):
    of = os.stat(fd).st_dev
    return os.major(of) << 20 | os.minor(of)


def pipes():
    (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()
    there_out, there_in, back_out, back_in = map(high, (there_out, there_in, back_out, back_in))
    facts["pipe"] = {"there": inode(there_out), "back": inode(back_out), "device": device(there_out)}
    child = os.fork()
    if child == 0:
        for _ in range(ROUNDS):
            os.write(back_in, os.read(there_out, 64))
        os._exit(7)
    for number in range(ROUNDS):
        os.write(there_in, b"x" * (number + 1))
        os.read(back_out, 64)
    facts["pipe"]["child"] = child
    facts["pipe"]["bytes"] = sum(range(1, ROUNDS + 1))
    os.waitpid(child, 0)
    for fd in (there_out, there_in, back_out, back_in):
        os.close(fd)


def fifo():
    path = f"/tmp/noised-talk-{os.getpid()}"
    os.mkfifo(path)
    try:
        fd = high(os.open(path, os.O_RDWR))
        facts["fifo"] = {"inode": inode(fd) & 0xFFFFFFFF, "device": device(fd)}
        os.write(fd, b"twelve bytes")
        os.read(fd, 64)
        os.close(fd)
    finally:
        os.unlink(path)


def unix():
    one, other = sockets(socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    facts["unix"] = {"one": inode(one.fileno()), "other": inode(other.fileno())}

    def answer():
        facts["unix"]["thread"] = threading.get_native_id()
        for _ in range(ROUNDS):
            other.sendall(other.recv(64))

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(ROUNDS):
        one.sendall(b"hello")
        one.recv(64)
    thread.join()
    one.close()
    other.close()


def tcp(name, family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen()
    [listener] = sockets([listener])
    known = facts[name] = {"listener": inode(listener.fileno())}

    def serve():
        connection, _ = listener.accept()
        [connection] = sockets([connection])
        known["server"] = inode(connection.fileno())
        known["thread"] = threading.get_native_id()
        known["peeked"] = len(connection.recv(1 << 20, socket.MSG_PEEK))
        received = 0
        while True:
            data = connection.recv(1 << 20)
            if not data:
                break
            received += len(data)
            connection.sendall(b"y" * 10)
        known["received"] = received
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    client = socket.socket(family, socket.SOCK_STREAM)
    client.connect(listener.getsockname())
    [client] = sockets([client])
    known["client"] = inode(client.fileno())
    known["ports"] = [client.getsockname()[1], client.getpeername()[1]]
    for number in range(ROUNDS):
        client.sendall(b"z" * (1000 * number + 1))
        client.recv(1)
    known["sent"] = sum(1000 * number + 1 for number in range(ROUNDS))
    client.shutdown(socket.SHUT_WR)
    while client.recv(64):
        pass
    thread.join()
    client.close()
    listener.close()


def udp():
    one, other = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    other.bind(("127.0.0.1", 0))
    one, other = sockets([one, other])
    facts["udp"] = {"one": inode(one.fileno()), "other": inode(other.fileno()),
                    "ports": [one.getsockname()[1], other.getsockname()[1]]}
    for _ in range(ROUNDS):
        one.sendto(b"datagram", other.getsockname())
        data, sender = other.recvfrom(64)
        assert data == b"datagram" and sender == one.getsockname()
    one.close()
    other.close()


def events():
    fd = high(os.eventfd(0))
    poller = select.epoll()
    poller.register(fd, select.EPOLLIN)
    lines = open(f"/proc/self/fdinfo/{fd}").read().splitlines()
    number = [line.split()[1] for line in lines if line.startswith("eventfd-id")]
    facts["eventfd"] = {"id": int(number[0]) if number else None, "epoll": poller.fileno()}

    def add():
        facts["eventfd"]["thread"] = threading.get_native_id()
        for _ in range(ROUNDS):
            time.sleep(0.001)
            os.eventfd_write(fd, 3)

    thread = threading.Thread(target=add)
    thread.start()
    left = 3 * ROUNDS
    while left > 0:
        poller.poll()
        left -= os.eventfd_read(fd)
    thread.join()
    poller.close()
    os.close(fd)


def futexes():
    there, back = threading.Semaphore(0), threading.Semaphore(0)

    def answer():
        facts["futex"]["thread"] = threading.get_native_id()
        for _ in range(ROUNDS):
            there.acquire()
            back.release()

    facts["futex"] = {}
    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(ROUNDS):
        time.sleep(0.0005)
        there.release()
        back.acquire()
    thread.join()


def signals():
    got = []
    signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
    child = os.fork()
    if child == 0:
        for _ in range(ROUNDS):
            os.kill(os.getppid(), signal.SIGUSR1)
            time.sleep(0.001)
        os._exit(0)
    facts["signal"] = {"child": child, "number": int(signal.SIGUSR1)}
    os.waitpid(child, 0)
    facts["signal"]["handled"] = len(got)


def queues():
    queue = libc.msgget(0, 0o600)
    semaphores = libc.semget(0, 1, 0o600)
    facts["sysv"] = {"msg": queue, "sem": semaphores, "namespace": os.stat("/proc/self/ns/ipc").st_ino}
    message = ctypes.create_string_buffer(8 + 16)
    message[0] = 1
    add = (ctypes.c_short * 3)(0, 1, 0)
    take = (ctypes.c_short * 3)(0, -1, 0)
    for _ in range(ROUNDS):
        libc.msgsnd(queue, message, ctypes.c_size_t(16), 0)
        libc.msgrcv(queue, message, ctypes.c_size_t(16), ctypes.c_long(0), 0)
        libc.semop(semaphores, add, ctypes.c_size_t(1))
        libc.semop(semaphores, take, ctypes.c_size_t(1))
    libc.msgctl(queue, 0, None)
    libc.semctl(semaphores, 0, 0)


def splices():
    (first_out, first_in), (second_out, second_in) = os.pipe(), os.pipe()
    first_out, first_in, second_out, second_in = map(high, (first_out, first_in, second_out, second_in))
    facts["splice"] = {"from": inode(first_out), "to": inode(second_out)}
    for _ in range(ROUNDS):
        os.write(first_in, b"spliced")
        os.splice(first_out, second_in, 64)
        os.read(second_out, 64)
    for fd in (first_out, first_in, second_out, second_in):
        os.close(fd)


facts["process"] = os.getpid()
facts["rounds"] = ROUNDS
pipes()
fifo()
unix()
tcp("tcp", socket.AF_INET, "127.0.0.1")
tcp("tcp6", socket.AF_INET6, "::1")
udp()
events()
futexes()
signals()
queues()
splices()
print(json.dumps(facts))
