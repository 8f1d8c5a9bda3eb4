"""images.py - archives and OCI images for tests, made by hand: members, layers, manifests, layouts, docker-archives."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def member(name, content=b"", kind=tarfile.REGTYPE, link="", mode=None, uid=0, gid=0, mtime=1000, pax=None, dev=(0, 0)):
    """One member of an archive, for archive()."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.uid, info.gid, info.mtime = kind, link, uid, gid, mtime
    info.mode = mode if mode is not None else 0o755 if kind == tarfile.DIRTYPE else 0o644
    info.devmajor, info.devminor = dev
    info.pax_headers = pax or {}
    info.size = len(content)
    return info, content


def directory(name, **more):
    return member(name, kind=tarfile.DIRTYPE, **more)


def symlink(name, target, **more):
    return member(name, kind=tarfile.SYMTYPE, link=target, **more)


def hard_link(name, target, **more):
    return member(name, kind=tarfile.LNKTYPE, link=target, **more)


def archive(*members, form=tarfile.PAX_FORMAT):
    """The bytes of a tar archive. Members may be tuples of member(), or bytes as they are."""
    out = io.BytesIO()
    for one in members:
        if isinstance(one, bytes):
            out.write(one)
            continue
        info, content = one
        out.write(info.tobuf(form, errors="surrogateescape"))
        out.write(content + b"\0" * (-len(content) % 512))
    out.write(b"\0" * 1024)
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Image:
    """An image with these layers (uncompressed archives). compress: of each layer."""

    def __init__(self, layers, config=None, compress=gzip.compress, suffix="+gzip", arch=ARCH):
        self.layers = list(layers)
        self.blobs = {}
        self.config = self.put(json.dumps({
            "architecture": arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in self.layers]}}).encode())
        stored = [self.put(compress(one)) for one in self.layers]
        self.manifest = {
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.descriptor(self.config, "config.v1+json"),
            "layers": [self.descriptor(one, "layer.v1.tar" + suffix) for one in stored]}
        self.manifest_digest = self.put(json.dumps(self.manifest).encode())

    def put(self, data):
        name = digest(data)
        self.blobs[name] = data
        return name

    def descriptor(self, name, kind):
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": name, "size": len(self.blobs[name])}

    def layout_files(self, tag="latest"):
        """Names and contents of an OCI layout."""
        entry = dict(self.descriptor(self.manifest_digest, "manifest.v1+json"), platform={"os": "linux", "architecture": ARCH},
                     annotations={"org.opencontainers.image.ref.name": tag})
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
                 "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()}
        files.update({"blobs/sha256/" + name[7:]: data for name, data in self.blobs.items()})
        return files

    def write_layout(self, folder, tag="latest"):
        for name, data in self.layout_files(tag).items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)

    def layout_tar(self):
        return archive(*[member(name, data) for name, data in self.layout_files().items()])

    def docker_archive(self, tag="made:latest"):
        names = [digest(one)[7:] + "/layer.tar" for one in self.layers]
        manifest = json.dumps([{"Config": "config.json", "RepoTags": [tag], "Layers": names}]).encode()
        files = [member(name, data) for name, data in zip(names, self.layers)]
        return archive(*files, member("config.json", self.blobs[self.config]), member("manifest.json", manifest))
