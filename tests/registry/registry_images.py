"""registry_images.py - small images made by hand: blobs by digest, with a manifest and a configuration."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(files, mtime=0):
    """An uncompressed tar: {name: bytes}, {name + "/": None} for directories."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mtime = mtime
            if data is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(data), 0o755 if name.startswith("bin/") else 0o644
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Image:
    """Blobs and manifests of one image; layers are tars, packed by gzip."""

    def __init__(self, layers, config=None, arch=ARCH):
        self.blobs, self.documents = {}, {}
        self.tars = layers
        packed = [gzip.compress(tar, 1, mtime=0) for tar in layers]
        self.config = json.dumps({
            "architecture": arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(tar) for tar in layers]}}).encode()
        self.layers = [self.blob(data) for data in packed]
        self.manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST,
                         "config": self.describe(OCI_CONFIG, self.config, self.blobs),
                         "layers": [self.describe(OCI_LAYER, data, self.blobs) for data in packed]}
        self.manifest_bytes = json.dumps(self.manifest).encode()
        self.documents[digest(self.manifest_bytes)] = (OCI_MANIFEST, self.manifest_bytes)
        self.tag = self.manifest_bytes, OCI_MANIFEST

    def blob(self, data):
        self.blobs[digest(data)] = data
        return digest(data)

    @staticmethod
    def describe(kind, data, into):
        into[digest(data)] = data
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    def remake(self, **changes):
        """The manifest with other members, as the tag's."""
        data = json.dumps({**self.manifest, **changes}).encode()
        kind = changes.get("mediaType", OCI_MANIFEST)
        self.documents[digest(data)] = (kind, data)
        self.tag = data, kind
        return data

    def index(self, entries=None, depth=1):
        """An index around the manifest, as the tag's."""
        data, kind = self.tag
        for _ in range(depth):
            own = {"mediaType": kind, "digest": digest(data), "size": len(data),
                   "platform": {"os": "linux", "architecture": ARCH}}
            listed = entries if entries is not None else [
                {**own, "digest": digest(b"attestation"), "platform": {"os": "unknown", "architecture": "unknown"}},
                {**own, "digest": digest(b"other"), "platform": {"os": "linux", "architecture": "s390x"}}, own]
            self.documents[digest(data)] = (kind, data)
            data = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed}).encode()
            kind = OCI_INDEX
        self.documents[digest(data)] = (kind, data)
        self.tag = data, kind
        return data

    def write_layout(self, folder):
        """As an OCI image layout, for skopeo."""
        os.makedirs(os.path.join(folder, "blobs", "sha256"))
        documents = {name: data for name, (_, data) in self.documents.items()}
        for name, data in {**self.blobs, **documents}.items():
            with open(os.path.join(folder, "blobs", *name.split(":")), "wb") as f:
                f.write(data)
        data, kind = self.tag
        with open(os.path.join(folder, "oci-layout"), "w", encoding="ascii") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')
        with open(os.path.join(folder, "index.json"), "w", encoding="ascii") as f:
            json.dump({"schemaVersion": 2, "manifests": [{
                "mediaType": kind, "digest": digest(data), "size": len(data),
                "annotations": {"org.opencontainers.image.ref.name": "t"}}]}, f)
