#!/usr/bin/python3
"""The engine of microVMs by itself: guests that boot, are copied and copied again, end and attack.

One guest boots; all others are clones of its memory image, or of an image of such a clone."""
import fcntl
import hashlib
import os
import pathlib
import re
import signal
import socket
import sys

import engine
from checks import Skip, check, equal, has, named_tests, run_tap, wait_for
from engine import Engine

CORDON, DRIVER, PROBE, HOSTILE = sys.argv[1:5]
SEALS = 1 | 2 | 4 | 8
SKIP, IMAGE = [], {}


def of_file(fd):
    found, at = hashlib.sha256(), 0
    while part := os.pread(fd, 1 << 20, at):
        found.update(part)
        at += len(part)
    return found.hexdigest()


def image():
    """The memory image of a guest that has booted and taken 16 MiB of memory."""
    if SKIP:
        raise Skip(SKIP[0])
    if not IMAGE:
        kernel, initrd = engine.boot_files(CORDON, PROBE)
        with Engine(DRIVER, kernel=kernel, initrd=initrd) as guest:
            guest.started()
            equal(guest.line(), "ready", "a guest that boots")
            guest.ask("fill 16")
            guest.ask("add template,")
            IMAGE.update(take(guest))
            IMAGE["count"], IMAGE["sum"] = map(int, guest.ask("count").split())
        IMAGE["hash"] = of_file(IMAGE["ram"])
    return IMAGE


def take(guest):
    """Stops the guest, copies it, and lets it go on."""
    guest.order("stop")
    ram, devices = guest.order("snapshot")
    guest.order("go_on")
    return {"ram": ram, "devices": devices}


def clone(of, **more):
    return Engine(DRIVER, ram=of["ram"], devices=of["devices"], **more)


def running(of):
    guest = clone(of).started()
    guest.order("go_on")
    return guest


def counted(guest):
    return list(map(int, guest.ask("count").split()))


def test_an_image_is_sealed():
    for fd in (image()["ram"], image()["devices"]):
        equal(fcntl.fcntl(fd, 1034), SEALS, "the seals")
    equal(os.fstat(image()["ram"]).st_size, engine.MIB << 20, "the size of the memory")


def test_zeros_of_the_memory_take_no_room():
    used = os.fstat(image()["ram"]).st_blocks * 512
    check(16 << 20 < used < 110 << 20, f"{used} bytes of {engine.MIB} MiB")


def test_a_clone_is_stopped_until_it_is_told():
    with clone(image()) as guest:
        guest.started()
        guest.stream.sendall(b"count\n")
        guest.stream.settimeout(0.3)
        try:
            check(not guest.stream.recv(1), "a stopped clone answers")
        except TimeoutError:
            pass
        guest.stream.settimeout(engine.PATIENCE)
        guest.order("go_on")
        check(int(guest.line().split()[0]) > 0, "it counts")


def test_ten_clones_keep_their_own_writes():
    guests = [running(image()) for _ in range(10)]
    try:
        for number, guest in enumerate(guests):
            equal(guest.ask(f"add own{number}"), f"template,own{number}", "the file of a clone")
        for number, guest in enumerate(guests):
            equal(counted(guest)[1], IMAGE["sum"], "the memory of a clone")
            equal(guest.ask("add ,"), f"template,own{number},", "the file of a clone, later")
    finally:
        for guest in guests:
            guest.__exit__()
    equal(of_file(IMAGE["ram"]), IMAGE["hash"], "the image")


def test_a_running_clone_is_copied_again_and_again():
    of, text, count = image(), "template,", IMAGE["count"]
    for generation in range(3):
        with running(of) as guest:
            text += str(generation)
            equal(guest.ask(f"add {generation}"), text, "its file")
            wait_for(lambda: counted(guest)[0] > count + 5, name="the counter")
            guest.ask(f"fill {8 + generation}")
            count, total = counted(guest)
            of = take(guest)
            after = counted(guest)
            check(after[0] >= count and after[1] == total, f"it goes on: {count} {total}, then {after}")
        with running(of) as guest:
            found = counted(guest)
            # it went on where it stood: the counter makes at most some steps from the question to the copy
            check(count <= found[0] < count + 400 and found[1] == total, f"its clone: {count} {total}, then {found}")
    equal(of_file(IMAGE["ram"]), IMAGE["hash"], "the first image")


def test_a_copy_of_a_stopped_clone_that_never_ran():
    with clone(image()) as guest:
        guest.started()
        ram, devices = guest.order("snapshot")
    equal(of_file(ram), IMAGE["hash"], "the copy of an unchanged clone")
    with running({"ram": ram, "devices": devices}) as guest:
        equal(counted(guest)[1], IMAGE["sum"], "its memory")


def test_a_clone_of_a_clone_by_its_changes():
    """It maps the first image, and has what the clone has changed as pages of its own; so have those that follow."""
    of, text, count = image(), "template,", IMAGE["count"]
    changes = {}
    for generation in range(3):
        with Engine(DRIVER, ram=of["ram"], devices=of["devices"], **changes) as guest:
            guest.started()
            guest.order("go_on")
            found = counted(guest)
            check(count <= found[0] < count + 400, f"its counter: {count}, then {found[0]}")
            check(generation == 0 or found[1] == total, "its memory")
            text += str(generation)
            equal(guest.ask(f"add {generation}"), text, "its file")
            guest.ask(f"fill {3 + generation}")
            count, total = counted(guest)
            guest.order("stop")
            ram, devices = guest.order(f"changes {engine.MIB}", answer="changes")
            whole, _ = guest.order("changes 1")  # it has more
            guest.order("go_on")
            equal(counted(guest)[1], total, "it goes on")
        used = os.fstat(ram).st_blocks * 512
        check((3 + generation) << 20 <= used < 40 << 20, f"{used} bytes have changed")
        equal(os.fstat(whole).st_size, engine.MIB << 20, "the whole memory")
        of, changes = {"ram": of["ram"], "devices": devices}, {"changes": ram}
    with running({"ram": whole, "devices": devices}) as guest:
        equal(counted(guest)[1], total, "a clone of the whole memory at the same moment")
    with Engine(DRIVER, ram=of["ram"], devices=devices, changes=engine.memory_file(b"x" * 8192)) as guest:
        has(guest.message()[0], "error restore changes of a memory of another size", "bad changes")
    equal(of_file(IMAGE["ram"]), IMAGE["hash"], "the first image")


def test_a_clone_that_is_started_before_its_state_is_known():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with running(image()) as source:
        with Engine(DRIVER, ram=IMAGE["ram"], later=theirs.fileno()) as guest:
            equal(source.ask("add moved"), "template,moved", "its file")
            source.order("stop")
            changes, devices = source.order(f"changes {engine.MIB}", answer="changes")
            source.order("go_on")
            socket.send_fds(ours, [b"s"], [devices, changes])
            guest.started()
            guest.order("go_on")
            equal(guest.ask("add ,"), "template,moved,", "the file of the clone")
            equal(source.ask("add !"), "template,moved!", "the file of its source")
    with Engine(DRIVER, ram=IMAGE["ram"], later=theirs.fileno()) as guest:
        theirs.close()
        ours.close()
        has(guest.message()[0], "error restore", "a state that does not come")
    equal(of_file(IMAGE["ram"]), IMAGE["hash"], "the first image")


def test_a_panic_is_told():
    with running(image()) as guest:
        guest.stream.sendall(b"panic\n")
        has(guest.message()[0], "gone panicked", "a guest whose kernel panics")
        has(guest.console(), "Kernel panic", "its console")


def test_a_killed_engine_is_told():
    with running(image()) as guest:
        os.kill(guest.qemu(), signal.SIGKILL)
        equal(guest.message()[0], "gone engine exited QEMU was ended by signal 9", "a killed QEMU")


def test_an_engine_that_dies_during_an_operation():
    with clone(image()) as guest:
        guest.started()
        os.kill(guest.qemu(), signal.SIGSTOP)
        guest.ours.send(b"snapshot")
        os.kill(guest.qemu(), signal.SIGKILL)
        said = sorted(guest.message()[0] for _ in range(2))
        has(said[0], "error snapshot", "the operation")
        has(said[1], "gone engine exited", "the engine")


def test_a_damaged_image_is_refused():
    good = os.pread(image()["devices"], 1 << 20, 0)
    for what, bad in (("nothing", b""), ("no image", b"x" * 4096), ("half an image", good[:len(good) // 2])):
        with Engine(DRIVER, ram=IMAGE["ram"], devices=engine.memory_file(bad)) as guest:
            has(guest.message()[0], "error restore", what)


def test_a_kernel_that_is_none():
    _, initrd = engine.boot_files(CORDON, PROBE)
    with Engine(DRIVER, kernel=engine.memory_file(b"x" * 100000), initrd=initrd) as guest:
        has(guest.message()[0], "error engine", "its start")
        has(guest.console(), "kernel", "what QEMU printed")


def hostile(mode):
    return clone(image(), engine=os.open(HOSTILE, os.O_RDONLY), mib=mode)


def test_an_engine_that_was_taken_over_cannot_change_the_image():
    with hostile(1) as guest:
        wait_for(lambda: "done" in guest.console(), name="the attack")
        tried = [line for line in guest.console().splitlines() if line != "done"]
        check(tried, "it has no descriptor of the image")
        equal([line for line in tried if not re.fullmatch(r"tried \d+", line)], [], "what worked")
    equal(of_file(IMAGE["ram"]), IMAGE["hash"], "the image")


def test_a_control_channel_that_talks_nonsense():
    for mode, why in ((2, "control channel"), (3, "too long"), (4, "greeted twice"), (5, "restore")):
        with hostile(mode) as guest:
            text = guest.message()[0]
            has(text, "error restore", f"mode {mode}")
            has(text, why, f"mode {mode}")


def test_a_flood_of_events_ends_with_the_engine():
    with hostile(6) as guest:
        has(guest.message()[0], "error restore QEMU has exited with status 3", "a flood")


def has_ended(pid):
    """Whether it is gone or waits to be reaped, which PID 1 does at a time of its own."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_engine_that_is_given_up_is_killed():
    guest = hostile(7)
    pid = guest.qemu()
    guest.__exit__()
    wait_for(lambda: has_ended(pid), name="the end of the engine")


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[5:])))
