"""package_files.py - the files of packages, made by hand as real clients accept them: wheel, sdist, npm's tgz, .crate,
a Go module's zip, .deb, .gem, .jar. Each function gets a Package (registry.py) and returns bytes; the same package
gives the same bytes every time."""
import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile

STAMP = (2020, 1, 1, 0, 0, 0)
SECONDS = 1577836800


def tar(files, executable=()):
    """The bytes of a tar archive of {name: bytes}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), SECONDS, 0o755 if name in executable else 0o644
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_gz(files, executable=()):
    return gzip.compress(tar(files, executable), 1, mtime=0)


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, STAMP), data)
    return out.getvalue()


def padding(p):
    """Bytes that do not compress, so that a package has about the size that its test wants."""
    out, piece = b"", f"{p.name} {p.version}".encode()
    while len(out) < p.pad:
        piece = hashlib.sha512(piece).digest()
        out += piece
        if len(out) >= 1 << 16:  # long ones repeat a block: quick to make
            out = (out * (p.pad // len(out) + 1))[:p.pad]
    return out


# ---- Python


def python_metadata(p):
    lines = ["Metadata-Version: 2.1", f"Name: {p.name}", f"Version: {p.version}", "Summary: made by a test"]
    lines += [f"Requires-Dist: {name}{want}" for name, want in p.depends.items()]
    return "\n".join(lines).encode() + b"\n"


def wheel_name(p):
    return f"{p.name.replace('-', '_').replace('.', '_')}-{p.version}-py3-none-any.whl"


def wheel(p):
    module = p.name.replace("-", "_").replace(".", "_").lower()
    info = wheel_name(p).rsplit("-", 3)[0] + ".dist-info"
    files = {f"{module}/__init__.py": f"VERSION = {p.version!r}\n".encode(), f"{module}/data": padding(p),
             f"{info}/METADATA": python_metadata(p),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    return zipped(files)


def sdist_name(p):
    return f"{p.name}-{p.version}.tar.gz"


def sdist(p):
    top = f"{p.name}-{p.version}"
    setup = f"from setuptools import setup\nsetup(name={p.name!r}, version={p.version!r}, py_modules=['code'])\n"
    return tar_gz({f"{top}/PKG-INFO": python_metadata(p), f"{top}/setup.py": setup.encode(),
                   f"{top}/code.py": b"", f"{top}/data": padding(p)})


# ---- npm


def npm_manifest(p):
    """package.json, which is also the version's entry in the registry's document."""
    made = {"name": p.name, "version": p.version, "main": "index.js", "description": "made by a test"}
    if p.depends:
        made["dependencies"] = p.depends
    if p.script:
        made["scripts"] = {"postinstall": "node -e \"require('fs').writeFileSync('script-ran','')\""}
    return made


def npm_tgz(p):
    files = {"package/package.json": json.dumps(npm_manifest(p)).encode(),
             "package/index.js": f"module.exports = {p.version!r}\n".encode(), "package/data": padding(p)}
    return tar_gz(files)


# ---- cargo


def crate(p):
    top = f"{p.name}-{p.version}"
    text = f'[package]\nname = "{p.name}"\nversion = "{p.version}"\nedition = "2018"\n'
    text += "[dependencies]\n" + "".join(f'{name} = "{want}"\n' for name, want in p.depends.items())
    files = {f"{top}/Cargo.toml": text.encode(), f"{top}/data": padding(p),
             f"{top}/src/lib.rs": f'pub const VERSION: &str = "{p.version}";\n'.encode()}
    if p.script:
        files[f"{top}/build.rs"] = b"fn main() {}\n"
    return tar_gz(files)


# ---- Go


def go_mod(p):
    needs = "".join(f"require {name} {version}\n" for name, version in p.depends.items())
    return f"module {p.name}\n\ngo 1.18\n{needs}".encode()


def go_files(p):
    package = p.name.rsplit("/", 1)[-1].replace("-", "_").replace(".", "_")
    return {"go.mod": go_mod(p), "code.go": f'package {package}\n\nconst Version = "{p.version}"\n'.encode(),
            "data": padding(p)}


def go_zip(p):
    return zipped({f"{p.name}@{p.version}/{name}": data for name, data in go_files(p).items()})


def go_h1(files):
    """h1: of go.sum, of {name: bytes}."""
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return "h1:" + base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()


def go_sums(p):
    """The two lines of go.sum: (of the zip, of go.mod)."""
    whole = go_h1({f"{p.name}@{p.version}/{name}": data for name, data in go_files(p).items()})
    return whole, go_h1({"go.mod": go_mod(p)})


# ---- apt


def ar(files):
    out = b"!<arch>\n"
    for name, data in files.items():
        out += f"{name:<16}{SECONDS:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data
        out += b"\n" * (len(data) & 1)
    return out


def deb_control(p):
    lines = [f"Package: {p.name}", f"Version: {p.version}", "Architecture: all", "Maintainer: Test <t@t.example>",
             "Section: misc", "Priority: optional", "Description: made by a test"]
    if p.depends:
        lines.insert(3, "Depends: " + ", ".join(n + (f" ({w})" if w else "") for n, w in p.depends.items()))
    return "\n".join(lines) + "\n"


def deb(p):
    control = {"./control": deb_control(p).encode()}
    if p.script:
        control["./postinst"] = b"#!/bin/sh\nexit 0\n"
    data = {f"./usr/share/{p.name}/version": p.version.encode(), f"./usr/share/{p.name}/data": padding(p)}
    return ar({"debian-binary": b"2.0\n", "control.tar.gz": tar_gz(control, ("./postinst",)),
               "data.tar.gz": tar_gz(data)})


def deb_name(p):
    return f"{p.name}_{p.version.split(':')[-1]}_all.deb"


# ---- gem, Maven


def gem(p):
    spec = (f"--- !ruby/object:Gem::Specification\nname: {p.name}\nversion: !ruby/object:Gem::Version\n"
            f"  version: {p.version}\nplatform: ruby\nauthors: [test]\nsummary: made by a test\nfiles: [lib/{p.name}.rb]\n"
            f"require_paths: [lib]\ndependencies: []\nextensions: []\nspecification_version: 4\n"
            f"required_ruby_version: !ruby/object:Gem::Requirement\n  requirements: []\n")
    data = tar_gz({f"lib/{p.name}.rb": f"VERSION = '{p.version}'\n".encode(), "data": padding(p)})
    return tar({"metadata.gz": gzip.compress(spec.encode(), mtime=0), "data.tar.gz": data})


def jar(p):
    return zipped({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n\n", "version": p.version.encode(),
                   "data": padding(p)})


def pom(p):
    group, artifact = p.name.split(":")
    needs = "".join("<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
        *name.split(":"), version) for name, version in p.depends.items())
    return (f'<?xml version="1.0"?><project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{p.version}</version>"
            f"<dependencies>{needs}</dependencies></project>").encode()
