#!/usr/bin/env python3
"""Sends the same random commands to a Redis and to us and compares the replies.

differential.py REDIS_PORT OUR_PORT [COMMANDS] [SEED]; both servers are emptied first. Needs nothing
but Python. What may differ is in `allowed`, each with its reason.
"""

import random
import socket
import sys

KEYS = [b"k%d" % number for number in range(5)]
VALUES = [b"", b"0", b"1", b"-5", b"10", b"abc", b"3.5", b"9223372036854775807", b"x" * 50,
          b"1e3", b"foobar", b"-1", b"01", b"-9223372036854775808", b"1.0", b"\xff\xf0\x00"]
NUMBERS = [b"0", b"1", b"-1", b"2", b"5", b"-3", b"100", b"abc", b"3.2", b"9223372036854775807"]
OPTIONS = [b"EX", b"PX", b"NX", b"XX", b"KEEPTTL", b"GET", b"EXAT", b"PXAT", b"100000",
           b"9999999999", b"0", b"foo", b"PERSIST", b"GT", b"LT"]
TIMES = [b"100000", b"200000", b"-1", b"x", b"9223372036854775807", b"0"]
INSTANTS = [b"9999999999", b"1", b"x"]


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.replies = self.socket.makefile("rb")

    def ask(self, *args):
        parts = [b"*%d\r\n" % len(args)]
        parts += [b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args]
        self.socket.sendall(b"".join(parts))
        return self.read()

    def read(self):
        line = self.replies.readline()
        kind, text = line[:1], line[1:-2]
        if kind in b"+-:" and kind:
            return line[:-2].decode("latin1")
        if kind not in b"$*" or not kind:
            raise SystemExit(f"no reply begins with {line!r}")
        length = int(text)
        if length < 0:
            return None
        if kind == b"$":
            return self.replies.read(length + 2)[:-2]
        return [self.read() for _ in range(length)]


def commands(rng):
    """Each command with a way to draw arguments for it."""
    key = lambda: rng.choice(KEYS)
    value = lambda: rng.choice(VALUES)
    number = lambda: rng.choice(NUMBERS)
    some = lambda most, draw: [draw() for _ in range(rng.randint(0, most))]
    options = lambda most: some(most, lambda: rng.choice(OPTIONS))
    span = lambda: rng.choice([[], [number()], [number(), number()],
                               [number(), number(), rng.choice([b"BIT", b"BYTE"])]])
    return {
        "set": lambda: [key(), value(), *options(3)],
        "get": lambda: [key()],
        "getex": lambda: [key(), *options(3)],
        "setnx": lambda: [key(), value()],
        "setex": lambda: [key(), number(), value()],
        "psetex": lambda: [key(), rng.choice(TIMES), value()],
        "getset": lambda: [key(), value()],
        "getdel": lambda: [key()],
        "append": lambda: [key(), value()],
        "strlen": lambda: [key()],
        "incr": lambda: [key()],
        "decr": lambda: [key()],
        "incrby": lambda: [key(), number()],
        "decrby": lambda: [key(), number()],
        "incrbyfloat": lambda: [key(), rng.choice([b"1", b"0.1", b"-2.5", b"3.0e3", b"x"])],
        "getrange": lambda: [key(), number(), number()],
        "substr": lambda: [key(), number(), number()],
        "setrange": lambda: [key(), rng.choice([b"0", b"3", b"-1", b"60", b"x"]), value()],
        "mget": lambda: some(3, key),
        "mset": lambda: some(4, value),
        "msetnx": lambda: [key(), value(), key(), value()],
        "lcs": lambda: [key(), key(), *rng.choice([[], [b"LEN"], [b"IDX"], [b"foo"],
                                                   [b"IDX", b"MINMATCHLEN", b"2"],
                                                   [b"IDX", b"WITHMATCHLEN"]])],
        "setbit": lambda: [key(), rng.choice([b"0", b"7", b"100", b"-1", b"x", b"99999999999"]),
                           rng.choice([b"0", b"1", b"2"])],
        "getbit": lambda: [key(), rng.choice([b"0", b"7", b"100", b"-1", b"x"])],
        "bitcount": lambda: [key(), *span()],
        "bitpos": lambda: [key(), rng.choice([b"0", b"1", b"2", b"x"]), *span()],
        "bitop": lambda: [rng.choice([b"AND", b"or", b"XOR", b"NOT", b"foo"]), key(), key(),
                          *some(1, key)],
        "del": lambda: some(2, key),
        "unlink": lambda: [key()],
        "exists": lambda: some(2, key),
        "touch": lambda: [key(), key()],
        "type": lambda: [key()],
        "expire": lambda: [key(), rng.choice(TIMES), *options(2)],
        "pexpire": lambda: [key(), rng.choice([b"100000000", b"-1", b"x"]), *options(1)],
        "expireat": lambda: [key(), rng.choice(INSTANTS), *options(1)],
        "pexpireat": lambda: [key(), rng.choice([b"9999999999999", b"1", b"x"])],
        "ttl": lambda: [key()],
        "expiretime": lambda: [key()],
        "persist": lambda: [key()],
        "rename": lambda: [key(), key()],
        "renamenx": lambda: [key(), key()],
        "copy": lambda: [key(), key(), *rng.choice([[], [b"REPLACE"], [b"DB", b"1"],
                                                    [b"DB", b"77"], [b"foo"]])],
        "dbsize": lambda: [],
        "keys": lambda: [rng.choice([b"*", b"k?", b"k[^1]", b"x*"])],
        "scan": lambda: rng.choice([[b"0", b"COUNT", b"100"], [b"x"], [b"0", b"COUNT", b"0"],
                                    [b"0", b"TYPE", b"list"],
                                    [b"0", b"MATCH", b"k[1-3]", b"COUNT", b"50"]]),
        "select": lambda: [rng.choice([b"0", b"x", b"16", b"-1"])],
        "ping": lambda: some(2, value),
        "echo": lambda: some(1, value),
        "config": lambda: rng.choice([[], [b"get"], [b"foo"], [b"set", b"foo", b"1"]]),
        "client": lambda: rng.choice([[], [b"foo"], [b"kill"], [b"kill", b"id", b"0"],
                                      [b"setname", b"a b"], [b"getname"], [b"reply", b"x"]]),
        "hello": lambda: rng.choice([[b"x"], [b"4"], [b"2", b"foo"]]),
        "nosuch": lambda: [key(), number()],
    }


def allowed(command, theirs, ours):
    if command in ("ttl", "expiretime"):  # a second may pass between the two
        return abs(int(theirs[1:]) - int(ours[1:])) <= 1
    if command != "incrbyfloat" or not isinstance(theirs, bytes):
        return False
    # Redis adds in 80-bit floats: it shows their rounding where we add decimals, and goes on
    # where ours of 64 bits are infinite.
    if isinstance(ours, bytes):
        return float(theirs) == float(ours)
    return "NaN or Infinity" in ours and abs(float(theirs)) == float("inf")


def ordered(command, reply):
    if command == "keys" and isinstance(reply, list):
        return sorted(reply)
    if command == "scan" and isinstance(reply, list):
        return sorted(reply[1])
    return reply


def main():
    reference, tested = Connection(int(sys.argv[1])), Connection(int(sys.argv[2]))
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    rng = random.Random(seed)
    draw = commands(rng)
    names = list(draw)
    for server in (reference, tested):
        assert server.ask(b"flushall") == "+OK"
    for _ in range(count):
        name = rng.choice(names)
        args = [name.encode(), *draw[name]()]
        theirs, ours = (ordered(name, server.ask(*args)) for server in (reference, tested))
        if theirs == ours:
            continue
        if not allowed(name, theirs, ours):
            sys.exit(f"seed {seed}: {args}\n  Redis answers {theirs!r}\n  we answer     {ours!r}")
        for server in (reference, tested):
            server.ask(b"flushall")
    print(f"{count} random commands of {len(names)} kinds, seed {seed}: the same replies as Redis")


main()
