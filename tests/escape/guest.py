"""guest.py - what run.py needs to know of a level whose cells hold a guest: how it is started, and its own answers.

The guest's kernel answers the probe, so a row may have another answer than in a container. Each such answer is named in
differences.py with the reason; any other one fails. What is outside is judged as at level container: canaries, the
sibling, Cordon's own programs."""
import fnmatch
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, f"{ROOT}/tests/shared")
import guest_kernel  # noqa: E402
import runsc  # noqa: E402
import slim_root  # noqa: E402
from differences import DIFFERENCES  # noqa: E402

IMAGE_MAX = 1 << 30
# Many processes may end a gVisor guest by its memory, and its root may end its PID 1: rows that get guests of their own.
GVISOR_ALONE = ["fork-bomb", "thread-bomb", "pid1-kill"]
GVISOR_ENDS = [*GVISOR_ALONE, "pid1-stop", "pid1-term", "pid1-segv", "pid1-attach", "pid1-seize"]


class Gvisor:
    """The cell's own root and mounts, with runsc as its engine."""

    name, alone, ends = "gvisor", GVISOR_ALONE, GVISOR_ENDS

    def __init__(self, cordon, folder):
        self.runsc = f"{folder}/runsc"
        shutil.copy(runsc.find(cordon), self.runsc)

    def options(self, canaries, user):
        # only root of a gVisor guest can write to directories of the machine
        volume = "rw" if user == "root" else "ro"
        return ["--level", "gvisor", "--runsc", self.runsc, "--mount", f"{canaries.probe_dir}:/probe:ro",
                "--mount", f"{canaries.volume}:/vol:{volume}"]


class Microvm:
    """A virtual machine: the probe and the volume are in its root image, because it has no mounts."""

    name, alone, ends = "microvm", [], []

    def __init__(self, cordon, folder):
        self.storage = f"{os.path.dirname(os.path.abspath(cordon))}/cordon-storage"
        self.kernel, self.root, self.images = guest_kernel.state(cordon), slim_root.state(cordon), {}

    def image(self, canaries):
        path = f"{canaries.base}/root.erofs"
        if path not in self.images:
            folders = [self.root, canaries.probe_dir, canaries.volume]
            fds = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600)] + [os.open(f, os.O_RDONLY | os.O_DIRECTORY) for f in folders]
            make_image(self.storage, fds, f"--image={IMAGE_MAX}:probe:vol")
            self.images[path] = True
        return path

    def options(self, canaries, user):
        return ["--level", "microvm", "--state-dir", str(self.kernel), "--template", self.image(canaries)]


def make_image(storage, fds, word):
    """cordon-storage takes the image and the layers as descriptors 3 and up."""

    def place():
        for i, fd in enumerate(fds):
            os.dup2(fd, 40 + i)
        for i in range(len(fds)):
            os.dup2(40 + i, 3 + i)

    subprocess.run([storage, word], check=True, close_fds=False, preexec_fn=place)
    for fd in fds:
        os.close(fd)


def of_level(name, cordon, folder):
    return {"gvisor": Gvisor, "microvm": Microvm}[name](cordon, folder)


def expected(level, row, user):
    """The answers that a row may have in a guest, and why they are not those of a container (None: they are)."""
    for reason, who, answers in DIFFERENCES[level]:
        for pattern, words in answers if who in ("", user) else ():
            if fnmatch.fnmatchcase(row.id, pattern):
                return words, reason
    return row.expect, None


def is_expected(answer, words):
    return any(fnmatch.fnmatchcase(answer, word) for word in words)
