"""A program whose executions are of five kinds, and into each of which a fault can be planted.

    program.py FAULT ROUNDS FILE LOG PRIORITY

An execution has STEPS steps: it computes a little in each, and waits in the way of its kind. Each round has one of every kind.
In the middle of an execution lies the fault: none, read (a long read from the disk), loop (it computes in vain) or convoy
(threads queue up for a lock, it behind them). Executions are marked for noised, and LOG says of each where its fault lies.
PRIORITY is a real-time one, so that what else runs is no difference between two recordings; with 0 it has none. Where the host
gives none, it is as important as others can be.
"""

import gc
import hashlib
import json
import mmap
import os
import socket
import sys
import threading
import time

STEPS = 12
# Additions: of a step, some 0.4 ms; of what the helper does for it, and of what is done beside that; of a loop in vain.
OWN, OTHERS, BOTH, VAIN = 16_000, 32_000, 8_000, 400_000
# Bytes that are hashed while the lock is held, which other threads do not have to wait for but at the lock: of the partner, and
# of each in a convoy.
SHARED, HELD = 400 << 10, 8 << 20
# Bytes of a step's read, and of the one that is too long.
PIECE, LONG = 128 << 10, 16 << 20
NAP, PAUSE = 0.001, 0.004
CONVOY, TURNS = 2, 2


DATA = memoryview(bytes(HELD))


def add_up(count):
    total = 0
    for number in range(count):
        total += number
    return total


class Partner:
    """A thread that has a lock whenever it works."""

    def __init__(self, lock):
        self.lock, self.asked, self.has_it = lock, threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.asked.acquire()
            with self.lock:
                self.has_it.release()
                hashlib.sha256(DATA[:SHARED])


class Convoy:
    """Threads that want a lock at the same time."""

    def __init__(self, lock):
        self.lock, self.asked = lock, [threading.Semaphore(0) for _ in range(CONVOY)]
        self.are_done = threading.Semaphore(0)
        for asked in self.asked:
            threading.Thread(target=self.work, args=[asked], daemon=True).start()

    def work(self, asked):
        while True:
            asked.acquire()
            for _ in range(TURNS):
                with self.lock:
                    hashlib.sha256(DATA)
            self.are_done.release()


class Program:
    def __init__(self, path):
        # The helper is made while this is the only thread.
        (child_reads, self.to_helper), (self.from_helper, child_writes) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(self.to_helper)
            os.close(self.from_helper)
            while os.read(child_reads, 1):
                add_up(OTHERS)
                os.write(child_writes, b".")
            os._exit(0)
        os.close(child_reads)
        os.close(child_writes)
        self.disk = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.memory = mmap.mmap(-1, LONG)
        # Its pages are there from now on.
        self.memory.write(bytes(LONG))
        self.piece = memoryview(self.memory)[:PIECE]
        self.lock = threading.Lock()
        self.partner, self.convoy = Partner(self.lock), Convoy(self.lock)

    def compute(self, step):
        add_up(OTHERS)

    def read(self, step):
        os.preadv(self.disk, [self.piece], step * PIECE)

    def pipe(self, step):
        os.write(self.to_helper, b".")
        # Both work for a while.
        add_up(BOTH)
        os.read(self.from_helper, 1)

    def wait_for_lock(self, step):
        self.partner.asked.release()
        self.partner.has_it.acquire()
        with self.lock:
            pass

    def sleep(self, step):
        time.sleep(NAP)

    def long_read(self):
        os.preadv(self.disk, [self.memory], 0)

    def loop(self):
        add_up(VAIN)

    def queue(self):
        for asked in self.convoy.asked:
            asked.release()
        for _ in range(TURNS):
            # The others get it first.
            time.sleep(NAP)
            with self.lock:
                add_up(OWN)
        # Whoever still hashes beside the next step slows it down on the same core.
        for _ in self.convoy.asked:
            self.convoy.are_done.acquire()


def main():
    fault, rounds, path, log, priority = sys.argv[1:]
    if priority != "0":
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(int(priority)))
        except PermissionError:
            os.setpriority(os.PRIO_PROCESS, 0, -20)
    program = Program(path)
    faults = {"none": None, "read": program.long_read, "loop": program.loop, "convoy": program.queue}
    plant = faults[fault]
    kinds = {
        "compute": program.compute,
        "read": program.read,
        "pipe": program.pipe,
        "lock": program.wait_for_lock,
        "sleep": program.sleep,
    }
    marks = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    marks.connect(os.environ["NOISED_MARKS"])
    clock, tid = time.monotonic_ns, threading.get_native_id()
    gc.disable()
    logged = []
    for number in range(int(rounds)):
        for kind, wait in kinds.items():
            planted = None
            time.sleep(PAUSE)
            begin_ns = clock()
            for step in range(STEPS):
                add_up(OWN)
                wait(step)
                if plant and step == STEPS // 2:
                    planted = [clock()]
                    plant()
                    planted.append(clock())
            end_ns = clock()
            key = f"{kind}-{number}"
            # Afterwards, so that who takes marks does not run beside the execution.
            for action, at_ns in ("begin", begin_ns), ("end", end_ns):
                marks.send(f"{action} work {key} {at_ns} {tid}".encode())
            logged.append({"key": key, "kind": kind, "from_ns": begin_ns, "to_ns": end_ns, "fault": planted})
    with open(log, "w", encoding="utf-8") as file:
        json.dump(logged, file)


main()
