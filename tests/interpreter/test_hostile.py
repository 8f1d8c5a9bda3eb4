#!/usr/bin/python3
"""Goal: no kernel, whatever user code makes of it, ends the server, holds up another context or makes the server's memory
grow; and no client does.    test_hostile.py PROGRAM [test ...]"""
import os
import re
import signal
import socket
import threading
import time

from interp import PROGRAM, Interpreter, gone, main, the, types, wait_for
from checks import check, equal, has, settled, stays  # noqa: I001

MIB = 1 << 20
MEMORY = 8 if "sanitized" in PROGRAM else 1  # what a sanitized program takes more


def a_killed_kernel_is_replaced():
    with Interpreter() as i:
        for language in ("python", "bash"):
            pid = int(i.value("x = 1; out(str(os.getpid()).encode())", language=language))
            running = i.stream("import time; time.sleep(60)", language=language)
            running.next()
            waiting = i.stream("out(b'never')", language=language)
            os.kill(pid, signal.SIGKILL)
            for s in (running, waiting):
                error = the(s.rest(), "error")
                equal((error["name"], error["value"]), ("ContextRestarting", "Context was restarted"), language)
            equal(the(i.run("x", language=language), "error")["name"], "NameError")
            lines = i.run("os._exit(3)", language=language)
            equal(types(lines), ["number_of_executions", "error"])
            lines = i.run("send(type='error', name='Exit', value='3'); os._exit(3)", language=language)
            equal(the(lines, "error")["name"], "Exit", "its own error is the only one")
            equal(i.value("out(b'again')", language=language), "again")


def code_that_had_not_begun_runs_in_the_next_kernel():
    """A kernel that dies between two executions: the next one does not notice, but for its state."""
    with Interpreter() as i:
        for language in ("python", "bash"):
            for _ in range(10):
                os.kill(int(i.value("x = 1; out(str(os.getpid()).encode())", language=language)), signal.SIGKILL)
                equal(the(i.run("x", language=language), "error")["name"], "NameError")
        lines = i.run("# raw\nos._exit(1)", language="bash")
        equal(types(lines), ["error"], "one that ends kernels before it begins is not tried for ever")


def what_a_kernel_wrote_before_it_died_arrives():
    with Interpreter() as i:
        lines = i.run("out(b'pipe '); send(type='stdout', text='message'); os.kill(os.getpid(), 9)", language="bash")
        equal("".join(sorted(line.get("text", "") for line in lines)), "messagepipe ")


def an_interrupt_that_is_lost_is_sent_again():
    """As when it comes before the kernel has begun the code: nothing but the code ends by it."""
    with Interpreter() as i:
        i.run("x = 1", language="bash")
        s = i.stream("import time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nout(b'a')\ntime.sleep(1)\n"
                     "signal.signal(signal.SIGINT, signal.default_int_handler)\ntime.sleep(60)", language="bash")
        equal([s.next()["type"], s.next()["text"]], ["number_of_executions", "a"])
        s.close()
        equal(i.value("out(str(x).encode())", language="bash"), "1", "the same kernel")


def code_of_a_client_that_is_gone_is_interrupted():
    with Interpreter() as i:
        i.run("x = 1", language="bash")
        s = i.stream("import time\nout(b'a')\ntime.sleep(60)", language="bash")
        equal([s.next()["type"], s.next()["text"]], ["number_of_executions", "a"])
        waiting = i.stream("x = 2", language="bash")
        i.call("GET", "/health")  # answered after the server has taken what came before
        waiting.close()
        i.call("GET", "/health")
        began = time.monotonic()
        s.close()
        equal(i.value("send(type='stdout', text=str(x))", language="bash"), "1", "the kernel lives; who left while waiting did not run")
        check(time.monotonic() - began < 4, "interrupted at once")


def a_kernel_that_ignores_interrupts_is_killed():
    with Interpreter() as i:
        pid = int(i.value("x = 1; out(str(os.getpid()).encode())", language="bash"))
        s = i.stream("signal.signal(signal.SIGINT, signal.SIG_IGN)\nimport time\nout(b'on')\nwhile True: time.sleep(1)", language="bash")
        equal([s.next()["type"], s.next()["text"]], ["number_of_executions", "on"])
        s.close()
        got = i.run("x", language="bash")  # waits, and gets the error of the restart or a new kernel
        has(("NameError", "ContextRestarting"), the(got, "error")["name"])
        wait_for(lambda: gone(pid), name="the end of the kernel")
        equal(i.value("out(b'new')", language="bash"), "new")


def garbage_on_the_channel_is_dropped():
    code = ("raw(b'\\x00\\xff garbage\\n')\nraw(b'{\"type\":\"stdout\"}\\n{\"type\":\"stdout\",\"text\":5}\\n[1]\\n\"x\"\\n')\n"
            "raw(b'{\"type\":\"done\",\"id\":999}\\n{\"type\":\"ready\"}\\n{\"type\":\"spawned\",\"pid\":1}\\n')\n"
            "raw(b'[' * 100000 + b'\\n')\nraw(b'no newline')\nsend(type='stdout', text='kept')\nraw(b'again {\"type\":')\n")
    with Interpreter() as i:
        lines = i.run(code, language="bash")
        equal([line["text"] for line in lines if line["type"] == "stdout"], ["kept"])
        equal(i.value("out(b'fine')", language="bash"), "fine")
        lines = i.run("raw(b'{\"type\":\"done\",\"id\":%d}\\n' % request['id'] * 3); out(b'late')", language="bash")
        check("error" not in types(lines), "the first end counts")
        equal(i.value("out(b'fine')", language="bash")[-4:], "fine")


def messages_have_a_bound():
    with Interpreter() as i:
        lines = i.run("send(type='stdout', text='x' * (31 << 20))", language="bash")
        equal(len(the(lines, "stdout")["text"]), 31 * MIB)
        lines = i.run("send(type='stdout', text='x' * (33 << 20))", language="bash")
        has(the(lines, "error")["traceback"], "more than 32 MiB")
        equal(i.value("out(b'fine')", language="bash"), "fine")


def bytes_that_are_not_text_become_marks():
    with Interpreter() as i:
        equal(i.value(r"out(b'a\xff\xc3(\xe2\x82z\x00\x7f')", language="bash"), "a\ufffd\ufffd(\ufffd\ufffdz\x00\x7f")
        code = "import time\nfor b in 'é€😀'.encode(): out(bytes([b])); time.sleep(0.01)"
        equal(i.value(code, language="bash"), "é€😀", "characters in pieces")
        equal(i.value(r"out(b'x\xf0\x9f')", language="bash"), "x\ufffd\ufffd", "the beginning of a character at the end")
        equal(i.value("out(b'y')", language="bash"), "y")


def much_output_takes_little_memory():
    """100 MB by messages and by a pipe, to a client that reads late: the kernel waits, the server stays small."""
    with Interpreter() as i:
        for code in ("for n in range(100): send(type='stdout', text='x' * 1000000)", "for n in range(100): out(b'y' * 1000000)"):
            s = i.stream(code, language="bash")
            before = settled(lambda: i.memory("VmRSS"), 0.3)
            equal(i.value("out(b'beside')"), "beside", "another context is not held up")
            check(before < 12 * MIB * MEMORY, f"{before} bytes while nobody reads")
            equal(sum(len(line.get("text", "")) for line in s.rest()), 100_000_000)
        check(i.memory() < 16 * MIB * MEMORY, f"{i.memory()} bytes at most")


def a_client_that_reads_nothing_can_leave():
    with Interpreter() as i:
        s = i.stream("while True: send(type='stdout', text='x' * 100000)", language="bash")
        settled(lambda: i.memory("VmRSS"), 0.3)
        s.close()
        equal(i.value("out(b'fine')", language="bash"), "fine")


def a_kernel_that_reads_nothing_is_bounded():
    """Requests wait while a kernel is stuck; clients that leave free them."""
    with Interpreter() as i:
        stuck = i.stream("signal.pause()", language="bash")
        stuck.next()
        big = ["x" * (15 * MIB)] * 8
        got = []

        def send():
            got.append(i.stream(f"'''{big[0]}'''", language="bash"))
        threads = [threading.Thread(target=send) for _ in big]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        codes = sorted(s.status for s in got)
        equal(len(codes), len(big), "each is answered")
        check(503 in codes and 200 in codes, f"the bound of all code: {codes}")
        check(i.memory() < 260 * MIB * MEMORY, f"{i.memory()} bytes")
        for s in got:
            s.close()
        stuck.close()
        equal(i.value("out(b'fine')", language="bash"), "fine")


def output_that_comes_late_is_dropped():
    """A process that the code left behind writes between executions: it blocks nothing, and is nobody's output."""
    with Interpreter() as i:
        i.run("import subprocess, threading\np = subprocess.Popen(['sh', '-c', 'while :; do echo behind; done'])", language="bash")
        pid = int(re.search(r"<(\d+)>", i.value("send(type='stdout', text=f'<{p.pid}>')", language="bash")).group(1))
        stays(lambda: not gone(pid), 0.3, "it writes on")
        i.run("p.kill()", language="bash")
        wait_for(lambda: gone(pid))
        equal(i.value("out(b'fine')", language="bash")[-4:], "fine")


def kernels_end_with_the_server():
    with Interpreter() as i:
        pids = [int(i.value("import threading; out(str(os.getpid()).encode())", language=language)) for language in ("python", "bash")]
        s = i.stream("while True: pass", language="bash")
        s.next()
        i.process.kill()
        i.process.wait()
        wait_for(lambda: all(gone(pid) for pid in pids), name="the end of the kernels")
        i.start()
        i.verb("ready", check=True)
        equal(i.value("out(b'again')", language="bash"), "again")
        equal(i.value("out(b'again')"), "again")


def a_parent_that_dies_is_started_again():
    with Interpreter() as i:
        time.sleep(2.1)  # one that lived shorter is not started again by itself
        parent = int(open(f"/proc/{int(i.value('out(str(os.getpid()).encode())'))}/stat").read().rsplit(")", 1)[1].split()[1])
        os.kill(parent, signal.SIGKILL)
        equal(i.json("POST", "/contexts")["language"], "python")
        i.verb("ready", check=True)
        equal(i.value("out(b'again')"), "again")


def connections_that_stay_open_are_bounded():
    with Interpreter() as i:
        idle = []
        for _ in range(127):
            c = socket.socket(socket.AF_UNIX)
            c.connect(i.socket)
            c.sendall(b"GET /hea")
            idle.append(c)
        equal(i.call("GET", "/health")[0], 200)
        idle[0].sendall(b"lth HTTP/1.1\r\nHost: x\r\n\r\n")
        check(idle[0].recv(100).startswith(b"HTTP/1.1 200"), "they are served")
        late = i.conn(timeout=30)
        late.connect()
        for c in idle:
            c.close()
        late.request("GET", "/health")
        equal(late.getresponse().status, 200)


def clients_that_stay_connected_make_room():
    with Interpreter() as i:
        idle = [i.conn() for _ in range(140)]
        for c in idle:
            c.request("GET", "/health")
            equal(c.getresponse().read(), b'"OK"')
        equal(i.value("out(b'fine')"), "fine")


main([a_killed_kernel_is_replaced, code_that_had_not_begun_runs_in_the_next_kernel, what_a_kernel_wrote_before_it_died_arrives, an_interrupt_that_is_lost_is_sent_again,
      code_of_a_client_that_is_gone_is_interrupted,
      a_kernel_that_ignores_interrupts_is_killed, garbage_on_the_channel_is_dropped, messages_have_a_bound, bytes_that_are_not_text_become_marks,
      much_output_takes_little_memory, a_client_that_reads_nothing_can_leave, a_kernel_that_reads_nothing_is_bounded, output_that_comes_late_is_dropped,
      kernels_end_with_the_server, a_parent_that_dies_is_started_again, connections_that_stay_open_are_bounded, clients_that_stay_connected_make_room])
