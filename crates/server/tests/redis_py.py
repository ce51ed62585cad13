#!/usr/bin/env python3
"""Talks to a running server through redis-py: python3 redis_py.py PORT [reference].

With `reference`, the port is that of a Redis, and what only Velella has is left out: what passes
there is what Redis does, so the same expectations hold for both.
"""

import sys
import time
import warnings

try:
    import redis
except ImportError:
    print("SKIPPED: python3 has no module `redis` (pip install redis); nothing was tested")
    sys.exit(0)

warnings.simplefilter("ignore", DeprecationWarning)  # of SETEX and its kin
PORT = int(sys.argv[1])
REFERENCE = len(sys.argv) > 2


def client(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, **options)


def refused(message, call, *args, **options):
    try:
        call(*args, **options)
    except redis.ResponseError as error:
        assert message in str(error), f"expected {message!r}, got {error!r}"
        return
    raise AssertionError(f"expected {message!r}, got success")


def strings(r):
    assert r.set("k", "v") is True
    assert r.get("k") == b"v"
    assert r.set("k", "w", nx=True) is None
    assert r.set("new", "w", xx=True) is None
    assert r.set("k", "w", get=True) == b"v"
    assert r.set("fresh", "1", nx=True, get=True) is None
    assert r.set("fresh", "2", nx=True, get=True) == b"1"
    assert r.set("k", "x", ex=100) is True and 99 <= r.ttl("k") <= 100
    assert r.set("k", "y", keepttl=True) is True and 99 <= r.ttl("k") <= 100
    assert r.set("k", "z") is True and r.ttl("k") == -1
    assert r.set("k", "z", px=100_000) and 99_000 < r.pttl("k") <= 100_000
    assert r.set("k", "z", exat=int(time.time()) + 50) and 48 <= r.ttl("k") <= 50
    assert r.setnx("k", "q") is False and r.setnx("k2", "q") is True
    assert r.setex("k", 10, "v") and r.psetex("k", 10_000, "v")
    assert r.getset("k", "n") == b"v" and r.ttl("k") == -1
    assert r.getdel("k") == b"n" and r.getdel("k") is None
    r.set("k", "v")
    assert r.getex("k", ex=100) == b"v" and 99 <= r.ttl("k") <= 100
    assert r.getex("k", persist=True) == b"v" and r.ttl("k") == -1
    assert r.mset({"a": 1, "b": 2}) and r.mget("a", "b", "none") == [b"1", b"2", None]
    assert r.msetnx({"a": 5, "c": 6}) is False and r.get("c") is None
    assert r.msetnx({"c": 6, "d": 7}) is True
    refused("syntax error", r.execute_command, "SET", "k", "v", "EX", "1", "PX", "2")
    refused("syntax error", r.execute_command, "SET", "k", "v", "NX", "XX")
    refused("invalid expire time in 'set' command", r.execute_command, "SET", "k", "v", "EX", "0")
    refused("not an integer", r.execute_command, "SET", "k", "v", "EX", "x")
    refused("invalid expire time in 'setex' command", r.execute_command, "SETEX", "k", "-1", "v")
    refused("wrong number of arguments for 'get' command", r.execute_command, "GET")
    refused("wrong number of arguments for 'mset' command", r.execute_command, "MSET", "a")
    blob = bytes(range(256)) * 20_000
    assert r.set("blob", blob) and r.get("blob") == blob


def numbers(r):
    assert r.incr("n") == 1 and r.incrby("n", 41) == 42 and r.decr("n") == 41
    assert r.decrby("n", 11) == 30 and r.get("n") == b"30"
    r.expire("n", 100)
    assert r.incr("n") == 31 and r.ttl("n") > 90
    assert r.incrbyfloat("f", 0.1) == 0.1 and r.incrbyfloat("f", 0.2) == 0.3
    r.set("f", "10.50")
    assert r.incrbyfloat("f", 0.1) == 10.6
    r.set("f", "5.0e3")
    assert r.incrbyfloat("f", "2.0e2") == 5200 and r.get("f") == b"5200"
    r.set("s", "text")
    refused("value is not an integer or out of range", r.incr, "s")
    refused("value is not a valid float", r.incrbyfloat, "s", 1)
    r.set("m", 2**63 - 1)
    refused("increment or decrement would overflow", r.incr, "m")
    refused("decrement would overflow", r.execute_command, "DECRBY", "n", -(2**63))


def parts(r):
    assert r.append("p", "Hello ") == 6 and r.append("p", "World") == 11
    assert r.strlen("p") == 11 and r.strlen("none") == 0
    assert r.getrange("p", 0, 4) == b"Hello" and r.getrange("p", -5, -1) == b"World"
    assert r.getrange("none", 0, -1) == b"" and r.substr("p", 6, 100) == b"World"
    assert r.setrange("p", 6, "Redis") == 11 and r.get("p") == b"Hello Redis"
    assert r.setrange("gap", 3, "x") == 4 and r.get("gap") == b"\0\0\0x"
    assert r.setrange("none", 5, "") == 0 and not r.exists("none")
    refused("offset is out of range", r.execute_command, "SETRANGE", "p", -1, "x")
    r.mset({"l1": "ohmytext", "l2": "mynewtext"})
    assert r.execute_command("LCS", "l1", "l2") == b"mytext"
    assert r.execute_command("LCS", "l1", "l2", "LEN") == 6
    assert r.setbit("bits", 7, 1) == 0 and r.getbit("bits", 7) == 1 and r.get("bits") == b"\x01"
    r.set("bits", "foobar")
    assert r.bitcount("bits") == 26 and r.bitcount("bits", 1, 1) == 6
    assert r.bitcount("bits", 5, 30, "BIT") == 17
    r.set("bits", b"\xff\xf0\x00")
    assert r.bitpos("bits", 0) == 12 and r.bitpos("bits", 1, 2) == -1
    r.set("bits", b"\xff\xff")
    assert r.bitpos("bits", 0) == 16 and r.bitpos("bits", 0, 0, -1) == -1
    r.mset({"x1": "foobar", "x2": "abcdef"})
    assert r.bitop("AND", "x3", "x1", "x2") == 6 and r.get("x3") == b"`bc`ab"
    assert r.bitop("NOT", "x3", "none") == 0 and not r.exists("x3")


def generic(r):
    r.mset({"a": 1, "b": 2, "c": 3})
    assert r.exists("a", "b", "a", "none") == 3 and r.touch("a", "none") == 1
    assert r.delete("a", "none") == 1 and r.unlink("b") == 1 and r.dbsize() == 1
    assert r.type("c") == b"string" and r.type("none") == b"none"
    assert r.expire("c", 100) and 99 <= r.ttl("c") <= 100
    assert not r.expire("c", 50, nx=True) and not r.expire("c", 50, gt=True)
    assert r.expire("c", 50, lt=True) and r.expire("c", 60, xx=True)
    assert r.pexpire("c", 50_000) and 49_000 < r.pttl("c") <= 50_000
    at = int(time.time()) + 100
    assert r.expireat("c", at) and r.expiretime("c") == at
    assert r.pexpireat("c", at * 1000 + 5) and r.pexpiretime("c") == at * 1000 + 5
    assert r.persist("c") and not r.persist("c") and r.ttl("c") == -1 and r.ttl("none") == -2
    assert r.expire("c", -1) and not r.exists("c")
    r.set("c", 1)
    r.pexpire("c", 30)
    time.sleep(0.05)
    assert r.get("c") is None and r.dbsize() == 0
    refused("NX and XX, GT or LT options", r.execute_command, "EXPIRE", "c", 1, "NX", "XX")
    refused("Unsupported option foo", r.execute_command, "EXPIRE", "c", 1, "foo")
    refused("invalid expire time in 'expire' command", r.expire, "c", 2**62)
    r.set("from", "v", ex=100)
    assert r.rename("from", "to") and r.get("to") == b"v" and r.ttl("to") > 90
    refused("no such key", r.rename, "from", "to")
    r.set("other", 1)
    assert r.renamenx("to", "other") is False and r.renamenx("to", "fresh") is True
    assert r.copy("fresh", "copy") and not r.copy("fresh", "copy")
    assert r.copy("fresh", "copy", replace=True) and r.ttl("copy") > 90
    assert r.copy("fresh", "there", destination_db=2)
    other = client(db=2)
    assert other.get("there") == b"v" and r.get("there") is None
    other.flushdb()
    assert r.object("ENCODING", "other") == b"int" and r.object("REFCOUNT", "other") is not None
    assert r.object("ENCODING", "fresh") == b"embstr" and r.object("IDLETIME", "fresh") == 0


def scans(r):
    keys = {f"key:{number:05}".encode() for number in range(5000)}
    with r.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.set(key, "v")
        pipe.execute()
    assert set(r.keys("*")) == keys and len(r.keys("key:0000[0-4]")) == 5
    assert r.keys("key:0000?") and set(r.scan_iter()) == keys
    assert set(r.scan_iter(match="key:000*", count=7)) == {k for k in keys if k < b"key:00100"}
    assert set(r.scan_iter(count=100_000)) == keys
    assert set(r.scan_iter(_type="string", count=500)) == keys and not set(r.scan_iter(_type="list"))
    assert r.randomkey() in keys
    refused("invalid cursor", r.execute_command, "SCAN", "x")
    refused("syntax error", r.execute_command, "SCAN", 0, "COUNT", 0)
    # What is there all the time is found, whatever comes and goes meanwhile.
    seen, cursor, step = set(), 0, 0
    while True:
        cursor, found = r.scan(cursor, count=50)
        seen.update(found)
        r.set(f"new:{step}", 1)
        r.delete(f"key:{step:05}")
        step += 1
        if cursor == 0:
            break
    assert {k for k in keys if k >= b"key:%05d" % step} <= seen


def server(r):
    info = r.info()
    assert info["redis_version"] and info["tcp_port"] == PORT and info["connected_clients"] >= 1
    r.set("a", 1)
    assert r.info("keyspace")["db0"]["keys"] >= 1
    assert "cmdstat_set" in r.info("commandstats")
    assert r.ping() and r.echo("hi") == b"hi" and r.time()[0] > 1_600_000_000
    assert r.client_setname("me") and r.client_getname() == "me" and r.client_id() > 0
    assert any(entry["name"] == "me" for entry in r.client_list())
    assert r.config_get("maxclients")["maxclients"] and r.config_set("timeout", 100)
    assert r.config_get("timeout")["timeout"] == "100" and r.config_set("timeout", 0)
    refused("Unknown option", r.config_set, "nosuch", 1)
    assert r.config_resetstat() and r.command_count() > 70
    assert "get" in r.command() and r.slowlog_len() >= 0 and isinstance(r.slowlog_get(), list)
    assert r.wait(0, 10) == 0 and r.lastsave() and r.memory_usage("a") > 0
    refused("unknown command 'nosuch', with args beginning with: 'a' 'b' ",
            r.execute_command, "nosuch", "a", "b")
    refused("DB index is out of range", r.execute_command, "SELECT", 99)
    three = client(protocol=3)
    assert three.get("a") == b"1" and three.get("none") is None
    assert three.config_get("maxclients")["maxclients"]
    three.close()


def own(r):
    r.mset({"a": 1, "b": 2, "c": 3})
    assert r.execute_command("KV.SCAN", "a", "LIMIT", 2) == [b"a", b"1", b"b", b"2"]
    assert r.execute_command("KV.SCAN", "b", "c", "LIMIT", 9) == [b"b", b"2"]
    assert b"last_stamp" in r.execute_command("KV.STATS")
    assert r.execute_command("WAITAOF", 1, 0, 0) == [1, 0]
    single = client(single_connection_client=True)
    assert single.execute_command("KV.DURABILITY", "sync") and single.set("a", 9)
    assert single.execute_command("KV.DURABILITY", "group", 2) and single.set("a", 10)
    assert single.execute_command("KV.DURABILITY") == b"group 2" and r.get("a") == b"10"
    refused("command 'lpush' is not supported yet by this version of Velella", r.lpush, "l", 1)


def main():
    r = client()
    tests = [strings, numbers, parts, generic, scans, server] + ([] if REFERENCE else [own])
    for test in tests:
        r.flushall()
        test(r)
        print(f"ok {test.__name__}")
    r.flushall()


main()
