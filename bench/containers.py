"""podman and buildah beside the sections state and images: a store of their own with one small image, no daemon.

Storage driver overlay, as they choose by themselves. Commands run by runc, because crun does not start where the machine has both
versions of cgroups, and builds with `--isolation chroot` for the same reason: a change of the root directory and no namespaces of
pids or network, which is less than what a step of a build has here.
"""
import pathlib
import shutil
import subprocess
import time

MIB = 1 << 20
IMAGE = "localhost/bench:latest"
PROGRAMS = ("sh", "echo", "head")


def missing():
    """What is not installed."""
    return [name for name in ("buildah", "podman", "runc", "busybox") if not shutil.which(name)]


class Store:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "containers"
        self.folder.mkdir()
        self.options = ["--root", self.folder / "root", "--runroot", self.folder / "run", "--storage-driver", "overlay"]

    def __enter__(self):
        name = self.buildah("from", "scratch")
        top = pathlib.Path(self.buildah("mount", name))
        for part in ("bin", "tmp", "etc", "proc", "dev", "sys"):
            (top / part).mkdir()
        shutil.copy(shutil.which("busybox"), top / "bin/busybox")
        for program in PROGRAMS:
            (top / "bin" / program).symlink_to("busybox")
        self.buildah("commit", "-q", name, IMAGE)
        self.buildah("rm", name)
        return self

    def __exit__(self, *why):
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            left = [line.split()[4] for line in f if str(self.folder) in line]
        for path in reversed(left):
            subprocess.run(["umount", path], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, program, *words):
        done = subprocess.run([program, *self.options, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(map(str, words))}: {done.stderr[-500:]}")
        return done.stdout.strip()

    def buildah(self, *words):
        return self.call("buildah", *words)

    @staticmethod
    def timed(call, *args):
        begin = time.perf_counter()
        call(*args)
        return (time.perf_counter() - begin) * 1e3

    def commit_ms(self, mib):
        """A container that has changed so much becomes an image. Not synced to disk."""
        name = self.buildah("from", "--pull-never", IMAGE)
        top = self.buildah("mount", name)
        subprocess.run(["sh", "-c", f"head -c {mib * MIB} /dev/urandom > {top}/data"], check=True)
        taken = self.timed(self.buildah, "commit", "-q", name, "localhost/changed:latest")
        self.buildah("rm", name)
        self.buildah("rmi", "localhost/changed:latest")
        return taken

    def start_ms(self):
        """From the start of podman to the end of a command that prints a line."""
        return self.timed(self.call, "podman", "--runtime", shutil.which("runc"), "run", "--rm", "--network", "none", "--ulimit",
                          "nofile=1024:1024", "--ulimit", "nproc=1000:1000", IMAGE, "/bin/echo", "ready")

    def build_ms(self, steps, fresh):
        context = self.folder / "context"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(f"FROM {IMAGE}\n" + "".join(f"RUN {step}\n" for step in steps))
        return self.timed(self.buildah, "build", "-q", "--layers", *(["--no-cache"] if fresh else []), "--isolation", "chroot",
                          "--pull-never", "-t", "localhost/built:latest", context)

    def pull_ms(self, reference):
        taken = self.timed(self.buildah, "pull", "-q", "--tls-verify=false", reference)
        self.buildah("rmi", reference)
        return taken
