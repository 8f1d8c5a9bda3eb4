"""cell_clients.py - package clients in sessions: how each is brought into a cell, and how it installs.

Those of this machine's /usr are there already; cargo of a home is copied in; yarn 1 and pnpm come from the registry that
npm is configured with, fetched by fetch() before the test leaves the machine's network. One that cannot be had is a
skip."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
from checks import Skip, check  # noqa: E402
from internet_client import sh  # noqa: E402

FETCHED = "CORDON_TEST_CLIENTS"  # the folder of what was fetched
PACKED = {"yarn": "yarn@1.22.22", "pnpm": "pnpm@10.12.1", "berry": "@yarnpkg/cli-dist@4.9.2", "bun": "@oven/bun-linux-x64@1.4.4"}
# what cargo asks a compiler before it fetches; nothing is compiled
RUSTC = """#!/bin/sh
case "$*" in
*--print*) printf '___\\nlib___.rlib\\nlib___.so\\nlib___.so\\nlib___.a\\nlib___.so\\n/tmp\\noff\\npacked\\nunpacked\\n___\\nunix\\n'
	printf 'target_arch="x86_64"\\ntarget_os="linux"\\ntarget_family="unix"\\n' ;;
*) printf 'rustc 1.95.0 (0 2026-01-01)\\nbinary: rustc\\ncommit-hash: 0\\ncommit-date: 2026-01-01\\nhost: x86_64-unknown-linux-gnu\\n'
	printf 'release: 1.95.0\\n' ;;
esac
"""


def fetch():
    """Before internet.enter(): yarn and pnpm, if npm can reach a registry."""
    if FETCHED in os.environ or shutil.which("npm") is None:
        return
    os.environ[FETCHED] = tempfile.mkdtemp(prefix="cordon-clients-")
    for name, package in PACKED.items():
        made = subprocess.run(["npm", "pack", "--silent", package], cwd=os.environ[FETCHED], capture_output=True, text=True, timeout=120,
                              check=False).stdout.split()
        if made:
            os.rename(os.path.join(os.environ[FETCHED], made[-1]), os.path.join(os.environ[FETCHED], name + ".tgz"))


def forget():
    shutil.rmtree(os.environ.get(FETCHED, "/nonexistent"), ignore_errors=True)


def put(server, s, path, data):
    status, _, answer = server.request("PUT", f"/v1/sessions/{s['id']}/files?path={path}", data)
    check(status in (200, 201), f"{path}: {status} {answer}")


def packed(server, s, name):
    """The folder of a package of npm in the cell."""
    archive = os.path.join(os.environ.get(FETCHED, ""), name + ".tgz")
    if not os.path.exists(archive):
        raise Skip(f"{name} cannot be fetched from the registry of npm's configuration")
    with open(archive, "rb") as f:
        put(server, s, f"/tmp/{name}.tgz", f.read())
    sh(server, s, f"mkdir -p /tmp/{name} && tar -C /tmp/{name} -xzf /tmp/{name}.tgz --strip-components=1", 0)
    return f"/tmp/{name}"


def need(program):
    if not os.path.exists(os.path.join("/usr/bin", program)):
        raise Skip(f"{program} is not in /usr/bin of this machine")


def cargo_of_machine():
    """The newest toolchain of rustup, or /usr/bin/cargo if it knows sparse registries."""
    for path in sorted(glob.glob(os.path.expanduser("~/.rustup/toolchains/stable*/bin/cargo"))) + ["/usr/bin/cargo"]:
        if os.path.exists(path):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()
            if len(version) > 1 and tuple(int(n) for n in version[1].split(".")[:2]) >= (1, 70):
                return path
    raise Skip("no cargo of 1.70 or later on this machine")


class Pip:
    eco = "pypi"

    def __init__(self, server, s):
        need("python3")
        self.server, self.s = server, s
        if sh(server, s, "/usr/bin/python3 -m pip --version")["exit_code"] != 0:
            raise Skip("pip is not in /usr")

    def install(self, name, version=None, more=""):
        what = name + (f"=={version}" if version else "")
        return sh(self.server, self.s, "/usr/bin/python3 -m pip install --no-cache-dir --disable-pip-version-check --retries 0 "
                  f"--upgrade --target /tmp/pip -i https://pypi.example/simple {more or what}")

    def locked(self, files):
        put(self.server, self.s, "/tmp/requirements.txt", files["requirements.txt"].encode())
        return self.install("", more="--require-hashes -r /tmp/requirements.txt")

    def has(self, name):
        got = sh(self.server, self.s, f"ls -d /tmp/pip/{name}-*.dist-info")["stdout"].strip()
        return got.replace(".dist-info", "").rpartition("-")[2]


class Poetry:
    eco, where = "pypi", "/tmp/poetry-project"
    PROJECT = ('[tool.poetry]\nname = "x"\nversion = "1.0"\ndescription = ""\nauthors = []\n[tool.poetry.dependencies]\npython = "^3.9"\n'
               '[[tool.poetry.source]]\nname = "fake"\nurl = "https://pypi.example/simple/"\ndefault = true\n')

    def __init__(self, server, s):
        need("poetry")
        self.server, self.s = server, s
        sh(server, s, f"mkdir -p {self.where}", 0)
        put(server, s, f"{self.where}/pyproject.toml", self.PROJECT.encode())

    def run(self, words):
        return sh(self.server, self.s, f"cd {self.where} && HOME=/tmp POETRY_VIRTUALENVS_IN_PROJECT=true PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring "
                  f"/usr/bin/poetry {words} --no-interaction --no-ansi")

    def install(self, name, version=None):
        return self.run(f"add {name}" + (f"=={version}" if version else ""))

    def files(self):
        return {name: sh(self.server, self.s, f"cat {self.where}/{name}", 0)["stdout"] for name in ("pyproject.toml", "poetry.lock")}

    def locked(self, files):
        for name, text in files.items():
            put(self.server, self.s, f"{self.where}/{name}", text.encode())
        return self.run("install --no-root")

    def has(self, name):
        got = sh(self.server, self.s, f"ls -d {self.where}/.venv/lib/python3*/site-packages/{name}-*.dist-info")["stdout"].strip()
        return got.replace(".dist-info", "").rpartition("-")[2]


class Npm:
    """npm, yarn and pnpm differ in one line."""
    eco, where = "npm", "/tmp/npm"

    def __init__(self, server, s):
        need("npm")
        self.server, self.s = server, s
        sh(server, s, f"mkdir -p {self.where} && echo '{{\"name\":\"x\",\"version\":\"1.0.0\"}}' > {self.where}/package.json", 0)

    def line(self, what):
        return f"npm {'install ' + what if what else 'ci'} --no-audit --no-fund --registry https://npm.example/ --fetch-retries 0"

    def install(self, name, version=None):
        return sh(self.server, self.s, f"cd {self.where} && " + self.line(name + (f"@{version}" if version else "")))

    lockfile = "package-lock.json"

    def locked(self, files):
        for name in ("package.json", self.lockfile):
            put(self.server, self.s, f"{self.where}/{name}", files[name].encode())
        return sh(self.server, self.s, f"cd {self.where} && " + self.line(""))

    def files(self):
        return {name: sh(self.server, self.s, f"cat {self.where}/{name}", 0)["stdout"] for name in ("package.json", self.lockfile)}

    def has(self, name):
        return sh(self.server, self.s, f"node -p \"require('{self.where}/node_modules/{name}/package.json').version\"")["stdout"].strip()


class Yarn(Npm):
    where, lockfile = "/tmp/yarn-project", "yarn.lock"

    def __init__(self, server, s):
        super().__init__(server, s)
        self.at = packed(server, s, "yarn")

    def line(self, what):
        return (f"node {self.at}/bin/yarn.js {'add ' + what if what else 'install --frozen-lockfile'} --registry https://npm.example/ "
                "--no-progress --non-interactive --cache-folder /tmp/yarn-cache")


class Pnpm(Npm):
    where, lockfile = "/tmp/pnpm-project", "pnpm-lock.yaml"

    def __init__(self, server, s):
        super().__init__(server, s)
        self.at = packed(server, s, "pnpm")

    def line(self, what):
        return (f"node {self.at}/bin/pnpm.cjs {'add ' + what if what else 'install --frozen-lockfile'} --registry https://npm.example/ "
                "--fetch-retries 0 --store-dir /tmp/pnpm-store --config.manage-package-manager-versions=false")


class Berry(Npm):
    """Yarn 4."""
    where, lockfile = "/tmp/berry-project", "yarn.lock"

    def __init__(self, server, s):
        super().__init__(server, s)
        self.at = packed(server, s, "berry")
        put(server, s, f"{self.where}/.yarnrc.yml", b'npmRegistryServer: "https://npm.example"\nnodeLinker: node-modules\nenableTelemetry: false\n'
            b'enableGlobalCache: false\nhttpRetry: 0\n')
        sh(server, s, f"touch {self.where}/yarn.lock", 0)

    def line(self, what):
        return f"HOME=/tmp node {self.at}/bin/yarn.js {'add ' + what if what else 'install --immutable'}"


class Bun(Npm):
    where, lockfile = "/tmp/bun-project", "bun.lock"

    def __init__(self, server, s):
        super().__init__(server, s)
        self.at = packed(server, s, "bun")

    def line(self, what):
        return (f"HOME=/tmp BUN_CONFIG_REGISTRY=https://npm.example/ BUN_CONFIG_MAX_HTTP_REQUESTS=4 {self.at}/bin/bun "
                f"{'add ' + what if what else 'install --frozen-lockfile'} --no-progress")


class Cargo:
    eco = "cargo"

    def __init__(self, server, s):
        self.server, self.s = server, s
        with open(cargo_of_machine(), "rb") as f:
            put(server, s, "/tmp/cargo-bin", f.read())
        put(server, s, "/tmp/rustc", RUSTC.encode())
        sh(server, s, "chmod 755 /tmp/cargo-bin /tmp/rustc; mkdir -p /tmp/crate/src /tmp/crate/.cargo && cd /tmp/crate && "
           "echo 'fn main() {}' > src/main.rs && printf '[source.crates-io]\\nreplace-with = \"fake\"\\n[source.fake]\\n"
           "registry = \"sparse+https://index.cargo.example/\"\\n[net]\\nretry = 0\\n' > .cargo/config.toml", 0)

    def run(self, words):
        return sh(self.server, self.s, f"cd /tmp/crate && CARGO_HOME=/tmp/cargo-home RUSTC=/tmp/rustc /tmp/cargo-bin {words}")

    def toml(self, name, version):
        return f'[package]\nname = "x"\nversion = "0.1.0"\nedition = "2018"\n[dependencies]\n{name} = "{version}"\n'

    def install(self, name, version=None):
        put(self.server, self.s, "/tmp/crate/Cargo.toml", self.toml(name, "=" + version if version else "1").encode())
        return self.run("fetch")

    def files(self):
        return {name: sh(self.server, self.s, f"cat /tmp/crate/{name}", 0)["stdout"] for name in ("Cargo.toml", "Cargo.lock")}

    def locked(self, files):
        for name, text in files.items():
            put(self.server, self.s, f"/tmp/crate/{name}", text.encode())
        return self.run("fetch --locked")

    def has(self, name):
        got = sh(self.server, self.s, f"ls /tmp/cargo-home/registry/cache/*/{name}-*.crate")["stdout"]
        return got.strip().rpartition("-")[2].replace(".crate", "")


class Go:
    eco = "go"

    def __init__(self, server, s, key):
        need("go")
        self.server, self.s = server, s
        self.env = ("cd /tmp/mod && HOME=/tmp GOPROXY=https://proxy.go.example GOFLAGS='-mod=mod -modcacherw' GOPATH=/tmp/gopath "
                    f"GOCACHE=/tmp/gocache GOSUMDB='{key}' ")
        sh(server, s, "mkdir -p /tmp/mod && cd /tmp/mod && printf 'module x\\n\\ngo 1.18\\n' > go.mod", 0)

    def install(self, name, version=None):
        return sh(self.server, self.s, self.env + f"go get {name}@{version or 'latest'}")

    def files(self):
        return {name: sh(self.server, self.s, f"cat /tmp/mod/{name}", 0)["stdout"] for name in ("go.mod", "go.sum")}

    def locked(self, files):
        for name, text in files.items():
            put(self.server, self.s, f"/tmp/mod/{name}", text.encode())
        return sh(self.server, self.s, self.env + "go mod download")

    def has(self, name):
        escaped = "".join("!" + c.lower() if c.isupper() else c for c in name)
        got = sh(self.server, self.s, f"ls /tmp/gopath/pkg/mod/cache/download/{escaped}/@v/*.zip")["stdout"]
        return got.strip().rpartition("/")[2].replace(".zip", "")


class Git:
    eco = "git"

    def __init__(self, server, s):
        need("git")
        self.server, self.s = server, s

    def install(self, name, version=None):
        return sh(self.server, self.s, "rm -rf /tmp/clone; git clone -q " + (f"-b {version} " if version else "") +
                  f"https://code.example/{name}.git /tmp/clone")

    def has(self, _name):
        return sh(self.server, self.s, "git -C /tmp/clone describe --tags")["stdout"].strip()


class Apt:
    eco = "apt"

    def __init__(self, server, s, key):
        need("apt-get")
        self.server, self.s = server, s
        put(server, s, "/tmp/apt-key.gpg", key or b"")
        how = "signed-by=/tmp/apt-key.gpg" if key else "trusted=yes"
        sh(server, s, "mkdir -p /tmp/apt/etc/apt.conf.d /tmp/apt/lists/partial /tmp/apt/cache/archives/partial && touch /tmp/apt/status && "
           f"chmod 644 /tmp/apt-key.gpg && echo 'deb [{how}] http://deb.example test main' > /tmp/apt/sources.list", 0, user="root")
        self.words = ("apt-get -o Dir::Etc=/tmp/apt/etc -o Dir::Etc::sourcelist=/tmp/apt/sources.list -o Dir::Etc::sourceparts=/tmp/apt/none "
                      "-o Dir::State::lists=/tmp/apt/lists -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache "
                      "-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=0 ")

    def update(self):
        return sh(self.server, self.s, self.words + "-o APT::Update::Error-Mode=any update", user="root")

    def install(self, name, version=None):
        return sh(self.server, self.s, self.words + "-y --download-only install " + name + (f"={version}" if version else ""), user="root")

    def has(self, name):
        got = sh(self.server, self.s, f"ls /tmp/apt/cache/archives/{name}_*.deb", user="root")["stdout"]
        return got.strip().rpartition("/")[2].split("_")[1] if got else ""


class Bundler:
    eco = "gem"

    def __init__(self, server, s):
        need("bundle")
        self.server, self.s = server, s

    def run(self):
        return sh(self.server, self.s, "cd /tmp/bundle && HOME=/tmp BUNDLE_PATH=/tmp/bundle/there BUNDLE_SILENCE_ROOT_WARNING=1 BUNDLE_RETRY=0 bundle install")

    def install(self, name, version=None):
        pin = f', "{version}"' if version else ""
        sh(self.server, self.s, "rm -rf /tmp/bundle; mkdir -p /tmp/bundle", 0)
        put(self.server, self.s, "/tmp/bundle/Gemfile", f'source "https://gem.example"\ngem "{name}"{pin}\n'.encode())
        return self.run()

    def files(self):
        return {name: sh(self.server, self.s, f"cat /tmp/bundle/{name}", 0)["stdout"] for name in ("Gemfile", "Gemfile.lock")}

    def locked(self, files):
        sh(self.server, self.s, "rm -rf /tmp/bundle; mkdir -p /tmp/bundle", 0)
        for name, text in files.items():
            put(self.server, self.s, f"/tmp/bundle/{name}", text.encode())
        return self.run()

    def has(self, name):
        got = sh(self.server, self.s, f"ls -d /tmp/bundle/there/ruby/*/gems/{name}-*")["stdout"]
        return got.strip().rpartition("-")[2]


class Maven:
    eco = "maven"

    def __init__(self, server, s):
        need("mvn")
        self.server, self.s = server, s
        mirror = "<mirror><id>m</id><mirrorOf>*</mirrorOf><url>https://maven.example/</url></mirror>"
        if not os.path.exists("/etc/maven/m2.conf"):
            raise Skip("this Maven is not arranged as Debian's")
        sh(server, s, "mkdir -p /tmp/mvn/.mvn; cp -rL /usr/share/maven /tmp/maven; mkdir -p /tmp/maven/conf/logging")  # links to /etc lead nowhere in a cell
        with open("/etc/maven/m2.conf", "rb") as f:
            put(server, s, "/tmp/maven/bin/m2.conf", f.read())
        put(server, s, "/tmp/mvn/settings.xml", f"<settings><mirrors>{mirror}</mirrors></settings>".encode())
        put(server, s, "/tmp/mvn/pom.xml", b"<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>"
            b"<version>1</version><packaging>pom</packaging></project>")

    def install(self, name, version):
        group, artifact = name.split(":")
        put(self.server, self.s, "/tmp/mvn/.mvn/extensions.xml", f"<extensions><extension><groupId>{group}</groupId><artifactId>{artifact}"
            f"</artifactId><version>{version}</version></extension></extensions>".encode())
        return sh(self.server, self.s, "cd /tmp/mvn && rm -rf repo && MAVEN_HOME=/tmp/maven sh /tmp/maven/bin/mvn -B -s settings.xml -Dmaven.repo.local=/tmp/mvn/repo validate")

    def has(self, name):
        got = sh(self.server, self.s, "ls /tmp/mvn/repo/{}/*/*.jar".format(name.replace(".", "/").replace(":", "/")))["stdout"]
        return got.strip().rpartition("-")[2].replace(".jar", "")
