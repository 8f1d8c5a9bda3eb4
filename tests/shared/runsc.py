"""runsc.py - the engine of level gvisor for tests: Debian's package, unpacked beside the build, never installed.

find(cordon) gives the path of a runsc that is new enough. The machine's own is taken if it is; else the package
comes from the machine's own mirror: of its release if that has a new one (Debian 13), else of its backports."""
import fcntl
import os
import pathlib
import re
import subprocess

OLDEST = 20240729  # as RUNSC_OLDEST in src/cell/cellctl/runsc.h
USUAL = ("/usr/local/bin/runsc", "/usr/bin/runsc")


def release(path):
    """The date in the version of a runsc; 0: none."""
    try:
        text = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r"runsc version \D*(?:\d+\.\d+\D)?(\d{8})\b", text)
    return int(found.group(1)) if found else 0


def sources():
    """The name of this release's backports, and lines for both, from the mirror that its own packages come from."""
    codename = re.search(r"^VERSION_CODENAME=(\w+)$", pathlib.Path("/etc/os-release").read_text(), re.M).group(1)
    urls = re.findall(r"^(\S+)$", subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)"], check=True, stdout=subprocess.PIPE,
        text=True).stdout.replace(f" {codename}\n", "\n"), re.M)
    if not urls:
        raise RuntimeError(f"apt knows no mirror of {codename}")
    return f"{codename}-backports", "".join(f"deb {urls[0]} {suite} main\n" for suite in
                                             (codename, f"{codename}-backports"))


def fetch(folder):
    """Downloads the package and unpacks it in folder/runsc-root."""
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache").mkdir(exist_ok=True)
    suite, lines = sources()
    (folder / "sources.list").write_text(lines)
    options = [f"Dir::Etc::sourcelist={folder}/sources.list", "Dir::Etc::sourceparts=-", "APT::Sandbox::User=",
               f"Dir::State::lists={folder}/lists", f"Dir::Cache={folder}/cache"]
    options = [word for option in options for word in ("-o", option)]
    for old in folder.glob("*.deb"):
        old.unlink()
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    subprocess.run(["apt-get", "-qq", *options, "-t", suite, "download", "runsc"], check=True, cwd=folder)
    # made aside and renamed, so that an interrupted run leaves nothing that looks complete
    subprocess.run(["dpkg-deb", "-x", next(folder.glob("*.deb")), folder / "unpacked"], check=True)
    (folder / "unpacked").rename(folder / "runsc-root")


def find(cordon):
    """The path of a runsc that is new enough, beside the program `cordon` if the machine has none."""
    for path in USUAL:
        if release(path) >= OLDEST:
            return path
    folder = pathlib.Path(cordon).resolve().parent / "runsc"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = folder / "runsc-root/usr/bin/runsc"
        if not program.exists():
            fetch(folder)
    os.chmod(program, 0o755)
    return str(program)


if __name__ == "__main__":
    import sys
    print(find(sys.argv[1]))
