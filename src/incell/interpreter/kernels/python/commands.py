"""commands.py - programs that the user's code starts.

`!command` runs with a shell, and its output and errors become the cell's stdout. All programs print after
what the code printed before."""
import functools
import importlib
import os
import subprocess
import sys

KILL_SECONDS = 1


def order_output(output):
    """Wraps what starts programs without a fork that Python knows of."""
    start_popen, start_system = subprocess.Popen.__init__, os.system

    @functools.wraps(start_popen)
    def popen(self, *args, **named):
        output.before_program()
        start_popen(self, *args, **named)

    @functools.wraps(start_system)
    def system_of_os(command):
        output.before_program()
        return start_system(command)

    subprocess.Popen.__init__, os.system = popen, system_of_os


def shell_program():
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def wait(process):
    """The status. An interrupt reaches the command, too: it is in the same process group."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def start(command, stdout):
    return subprocess.Popen([shell_program(), "-c", command], stdin=subprocess.DEVNULL, stdout=stdout,
                            stderr=subprocess.STDOUT)


def notice_packages():
    """What the command installed can be imported, also if it is the first in its folder."""
    import site
    folders = site.getsitepackages() if hasattr(site, "getsitepackages") else []
    if site.ENABLE_USER_SITE:
        folders = folders + [site.getusersitepackages()]
    for folder in folders:
        if folder not in sys.path and os.path.isdir(folder):
            site.addsitedir(folder)
    importlib.invalidate_caches()


def system(command, output, raw_stdout):
    """Runs a command. What it leaves in the background keeps the pipe and may go on writing."""
    if sys.stdout is output.stdout:
        status = wait(start(command, raw_stdout))
        notice_packages()
        return status
    # The cell captures its output: read it here.
    process = start(command, subprocess.PIPE)
    with process.stdout:
        while True:
            data = process.stdout.read1(65536)
            if not data:
                break
            sys.stdout.write(data.decode("utf-8", "replace"))
    notice_packages()
    return wait(process)


def getoutput(command):
    process = start(command, subprocess.PIPE)
    with process.stdout:
        text = process.stdout.read().decode("utf-8", "replace")
    wait(process)
    return text
