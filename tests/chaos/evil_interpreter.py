"""evil_interpreter.py - in a cell, as root: takes the place of the code interpreter, and answers at random (in_cells.py).

    evil_interpreter.py SEED         the secret is in $TOKEN"""
import os
import random
import socket
import struct
import sys
import threading
import time

SEED, VALUE = sys.argv[1], os.environ["TOKEN"]
KINDS = ("stdout", "stderr", "result", "error", "number_of_executions", "keepalive", "end_of_execution")


def piece(dice):
    text = dice.choice((VALUE, VALUE[:7], VALUE[7:], "x" * dice.choice((1, 10, 5000, 70000)), "\\u%04x" % ord(VALUE[0]) + VALUE[1:], "\u00e9\U0001f600", "\\ud800", "\\u00", "\\\\", "\0", '"',
                        VALUE * 50, "1" * 40))
    return dice.choice((
        f'{{"type":"{dice.choice(("stdou", "result2", ""))}","text":"{text}"}}\n', text + "\n", f'{{"type":"stdout","text":"{text}',
        '{"type":"result","text":"' + "\\u%04x" % dice.randrange(65536) * dice.randrange(1, 300) + text + "\\",
        *[f'{{"type":"{kind}","text":"{text}","name":"{text}","execution_count":{dice.choice(("1", "314159", text, "-1e5"))}}}\n' for kind in KINDS]))


def framed(dice, body):
    head = "HTTP/1.1 " + dice.choice(["200 OK"] * 8 + ["500 X", "404 No", "204 No", "304 N", "101 Switching", "199 X", "100 Continue"]) + "\r\n"
    head += dice.choice(("", "Content-Type: application/x-ndjson\r\n", "Connection: upgrade\r\nUpgrade: x\r\n", "Set-Cookie: a=b\r\n", f"X-{VALUE}: {VALUE}\r\n"))
    how = dice.choice(("length", "chunks", "close", "wrong length", "broken chunks"))
    if how in ("length", "wrong length"):
        n = len(body) + (0 if how == "length" else dice.choice((1, -1 if body else 0, 1000000)))
        return f"{head}Content-Length: {n}\r\n\r\n".encode() + body
    if how == "close":
        return head.encode() + b"\r\n" + body
    out, at = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n", 0
    while at < len(body):
        part = body[at : at + dice.choice((1, 2, 7, 100, 5000, 70000))]
        out += b"%x%s\r\n%s\r\n" % (len(part), b";e=1" if dice.random() < 0.02 else b"", part)
        at += len(part)
    return out + (b"0\r\n\r\n" if how == "chunks" else dice.choice((b"", b"zz\r\n", b"ffffffffffffffffff\r\n")))


def serve(conn, number):
    dice = random.Random(f"{SEED}/{number}")
    try:
        conn.settimeout(5)
        got = b""
        while b"\r\n\r\n" not in got and len(got) < 100000:
            more = conn.recv(65536)
            if not more:
                return
            got += more
        time.sleep(dice.choice((0, 0, 0, 0, 0.1)))
        body = "".join(piece(dice) for _ in range(dice.choice((0, 1, 3, 20, 400)))).encode("utf-8", "surrogatepass")
        out, at = framed(dice, body + (b'{"type":"end_of_execution"}\n' if dice.random() < 0.3 else b"")), 0
        while at < len(out):
            size = dice.choice((1, 3, 50, 4096, 100000)) if len(out) < 3000 else dice.choice((4096, 100000))
            conn.sendall(out[at : at + size])
            at += size
            if dice.random() < 0.02:
                time.sleep(0.03)
            if dice.random() < 0.005:
                break
        if dice.random() < 0.1:  # a reset
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    finally:
        conn.close()


def main():
    while True:  # the interpreter is started again as long as its port is free
        os.system("pkill -9 -f 'cordon-interpreter serv[e]'")
        try:
            listener = socket.create_server(("127.0.0.1", 49999), backlog=64)
            break
        except OSError:
            time.sleep(0.05)
    number = 0
    while True:
        conn, _ = listener.accept()
        number += 1
        threading.Thread(target=serve, args=(conn, number), daemon=True).start()


main()
