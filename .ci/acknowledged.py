#!/usr/bin/env python3
"""Writes until the server goes and notes what it acknowledged; checks that all of it is there.

acknowledged.py write PORT NAME LOG    SETs and INCRs through two pipelining connections
acknowledged.py check PORT NAME LOG    fails if an acknowledged write is missing

A line of the log is written after the replies it stands for were read: what is in the log was
acknowledged. Speaks the protocol itself, so it needs nothing but Python.
"""

import socket
import sys
import threading

BATCH = 50


def encode(*args):
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


def key(name, connection, number):
    return f"{name}:{connection}:{number:07}".encode()


def value(name, connection, number):
    return f"{name}/{connection}/{number}/".encode() + b"x" * (number % 100)


def write(port, name, log):
    lock = threading.Lock()

    def connection(which):
        number = 0
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
                replies = sock.makefile("rb")
                while number < 2_000_000:
                    batch = range(number, number + BATCH)
                    commands = [encode(b"SET", key(name, which, n), value(name, which, n))
                                for n in batch]
                    commands.append(encode(b"INCR", f"{name}:{which}:count".encode()))
                    sock.sendall(b"".join(commands))
                    for n in batch:
                        reply = replies.readline()
                        if reply == b"":
                            return
                        if not reply.startswith(b"+OK"):
                            raise SystemExit(f"SET was answered by {reply!r}")
                        with lock:
                            log.write(f"{which} {n}\n")
                            log.flush()
                    counted = replies.readline()
                    if counted == b"":
                        return
                    with lock:
                        log.write(f"{which} count {int(counted[1:])}\n")
                        log.flush()
                    number += BATCH
        except OSError:
            return  # the server was killed: what follows is not acknowledged

    threads = [threading.Thread(target=connection, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(port, name, log):
    acknowledged, counts = [], {}
    for line in log:
        fields = line.split()
        if len(fields) == 3:
            counts[int(fields[0])] = int(fields[2])
        elif len(fields) == 2 and line.endswith("\n"):
            acknowledged.append((int(fields[0]), int(fields[1])))
    missing = 0
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        replies = sock.makefile("rb")

        def bulk():
            head = replies.readline()
            length = int(head[1:])
            return None if length < 0 else replies.read(length + 2)[:-2]

        for at in range(0, len(acknowledged), 500):
            some = acknowledged[at:at + 500]
            sock.sendall(b"".join(encode(b"GET", key(name, *write)) for write in some))
            for which, number in some:
                if bulk() != value(name, which, number):
                    missing += 1
        for which, count in counts.items():
            sock.sendall(encode(b"GET", f"{name}:{which}:count".encode()))
            found = bulk()
            # One more may have been counted and its answer lost.
            if found is None or not count <= int(found) <= count + 1:
                print(f"connection {which} counted to {count}, found {found!r}")
                missing += 1
    print(f"{name}: {len(acknowledged)} acknowledged writes, {missing} missing")
    if missing or not acknowledged:
        sys.exit(1)


def main():
    mode, port, name, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    with open(path, "w" if mode == "write" else "r") as log:
        {"write": write, "check": check}[mode](port, name, log)


main()
