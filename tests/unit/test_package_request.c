/* What requests to registries ask for: one line a row, good, odd and hostile. */
#include "test.h"

#include "lib/packages/package_request.h"

/* "kind name version file", "-" for nothing, "source" at the end; of the file host with "F ". */
struct row {
	enum ecosystem eco;
	const char *request, *want;
};

static const struct row rows[] = {
	/* PyPI */
	{ ECO_PYPI, "GET /simple/", "index - - -" },
	{ ECO_PYPI, "GET /simple/Demo.Pkg/", "meta demo-pkg - -" },
	{ ECO_PYPI, "GET /simple/a__b-._c/", "meta a-b-c - -" },
	{ ECO_PYPI, "GET /simple/demo", "meta demo - -" },
	{ ECO_PYPI, "HEAD /simple/demo/", "meta demo - -" },
	{ ECO_PYPI, "GET /simple/demo/?x=1", "other - - -" },
	{ ECO_PYPI, "GET /simple/demo//", "other - - -" },
	{ ECO_PYPI, "GET //simple/demo/", "other - - -" },
	{ ECO_PYPI, "GET /simple/-demo/", "other - - -" },
	{ ECO_PYPI, "GET /simple/demo./", "other - - -" },
	{ ECO_PYPI, "GET /simple/d%2Femo/", "other - - -" },
	{ ECO_PYPI, "GET /simple/d%C3%A9mo/", "other - - -" },
	{ ECO_PYPI, "POST /simple/demo/", "other - - -" },
	{ ECO_PYPI, "PUT /simple/demo/", "other - - -" },
	{ ECO_PYPI, "GET /pypi/demo/json", "meta demo - -" },
	{ ECO_PYPI, "GET /pypi/demo/1.0/json", "meta demo 1.0 -" },
	{ ECO_PYPI, "GET /search?q=secret", "search - - -" },
	{ ECO_PYPI, "POST /pypi", "search - - -" },
	{ ECO_PYPI, "POST /legacy/", "publish - - -" },
	{ ECO_PYPI, "F GET /packages/aa/bb/cc/Demo_Pkg-1.0-py3-none-any.whl",
	  "file demo-pkg 1.0 Demo_Pkg-1.0-py3-none-any.whl" },
	{ ECO_PYPI,
	  "F GET /packages/d-1.0-2b-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
	  "file d 1.0 d-1.0-2b-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl" },
	{ ECO_PYPI, "F GET /p/d-1!2.0%2Blocal.1-py3-none-any.whl",
	  "file d 1!2.0+local.1 d-1!2.0+local.1-py3-none-any.whl" },
	{ ECO_PYPI, "F GET /packages/d-1.0-x-cp311-cp311-linux.whl", "other - - -" },
	{ ECO_PYPI, "F GET /packages/d-1.0-py3-none.whl", "other - - -" },
	{ ECO_PYPI, "F GET /packages/d-1.0-py3-none-any.whl.metadata",
	  "filemeta d 1.0 d-1.0-py3-none-any.whl" },
	{ ECO_PYPI, "F GET /packages/aa/python-dateutil-2.8.2.tar.gz",
	  "file python-dateutil 2.8.2 python-dateutil-2.8.2.tar.gz source" },
	{ ECO_PYPI, "F GET /packages/aa/a-2-1.0.tar.gz", "other - - -" },
	{ ECO_PYPI, "F GET /packages/aa/a_2-1.0.tar.gz", "file a-2 1.0 a_2-1.0.tar.gz source" },
	{ ECO_PYPI, "F GET /packages/aa/a-v1.tar.gz", "other - - -" },
	{ ECO_PYPI, "F GET /simple/demo/", "other - - -" },
	{ ECO_PYPI, "GET /simple/demo/demo-1.0.tar.gz", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /simple/demo/evil-1.0.tar.gz", "other - - -" },
	{ ECO_PYPI, "GET /etc/passwd", "other - - -" },
	/* npm */
	{ ECO_NPM, "GET /left-pad", "meta left-pad - -" },
	{ ECO_NPM, "GET /JSONStream", "meta JSONStream - -" },
	{ ECO_NPM, "GET /@babel%2Fcore", "meta @babel/core - -" },
	{ ECO_NPM, "GET /@babel/core", "meta @babel/core - -" },
	{ ECO_NPM, "GET /@babel%2Fcore%2Fx", "other - - -" },
	{ ECO_NPM, "GET /@babel%2F..", "other - - -" },
	{ ECO_NPM, "GET /@babel%2F@core", "other - - -" },
	{ ECO_NPM, "GET /@@babel/core", "other - - -" },
	{ ECO_NPM, "GET /@babel", "other - - -" },
	{ ECO_NPM, "GET /a%2Fb", "other - - -" },
	{ ECO_NPM, "GET /left-pad/1.3.0", "meta left-pad 1.3.0 -" },
	{ ECO_NPM, "GET /@babel%2Fcore/latest", "meta @babel/core latest -" },
	{ ECO_NPM, "GET /left-pad?write=true", "other - - -" },
	{ ECO_NPM, "GET /left-pad/", "other - - -" },
	{ ECO_NPM, "GET /.hidden", "other - - -" },
	{ ECO_NPM, "GET /left-pad/-/left-pad-1.3.0.tgz", "file left-pad 1.3.0 left-pad-1.3.0.tgz" },
	{ ECO_NPM, "GET /@babel/core/-/core-7.0.0-beta.1.tgz",
	  "file @babel/core 7.0.0-beta.1 core-7.0.0-beta.1.tgz" },
	{ ECO_NPM, "GET /@babel%2Fcore/-/core-7.0.0.tgz", "file @babel/core 7.0.0 core-7.0.0.tgz" },
	{ ECO_NPM, "GET /a/-/a-1.0.0%2Bb.tgz", "file a 1.0.0+b a-1.0.0+b.tgz" },
	{ ECO_NPM, "GET /left-pad/-/evil-1.3.0.tgz", "other - - -" },
	{ ECO_NPM, "GET /left-pad/-/left-pad-.tgz", "other - - -" },
	{ ECO_NPM, "GET /left-pad/-/left-pad-1.3.0.tar", "other - - -" },
	{ ECO_NPM, "POST /-/npm/v1/security/advisories/bulk", "audit - - -" },
	{ ECO_NPM, "POST /-/npm/v1/security/audits/quick", "audit - - -" },
	{ ECO_NPM, "GET /-/v1/search?text=x", "search - - -" },
	{ ECO_NPM, "GET /-/npm/v1/keys", "key - - -" },
	{ ECO_NPM, "GET /-/npm/v1/attestations/@corp%2Fsecret@1.0.0", "key @corp/secret 1.0.0 -" },
	{ ECO_NPM, "GET /-/npm/v1/attestations/left-pad@1.3.0", "key left-pad 1.3.0 -" },
	{ ECO_NPM, "GET /-/npm/v1/attestations/data", "other - - -" },
	{ ECO_NPM, "GET /-/npm/v1/attestations/a/b@1.0.0", "other - - -" },
	{ ECO_NPM, "GET /-/whoami", "auth - - -" },
	{ ECO_NPM, "PUT /-/user/org.couchdb.user:me", "auth - - -" },
	{ ECO_NPM, "GET /-/ping", "other - - -" },
	{ ECO_NPM, "PUT /left-pad", "publish left-pad - -" },
	{ ECO_NPM, "PUT /@a%2Fb", "publish @a/b - -" },
	{ ECO_NPM, "PUT /-/package/@a%2Fb/dist-tags/latest", "publish @a/b - -" },
	{ ECO_NPM, "DELETE /left-pad/-rev/1-x", "publish left-pad - -" },
	{ ECO_NPM, "POST /left-pad", "other - - -" },
	/* apt */
	{ ECO_APT, "GET /dists/bookworm/InRelease", "index - bookworm -" },
	{ ECO_APT, "GET /debian/dists/bookworm/updates/Release.gpg", "index - bookworm/updates -" },
	{ ECO_APT, "GET /dists/bookworm/main/binary-amd64/Packages.xz", "meta - - -" },
	{ ECO_APT,
	  "GET /dists/b/main/binary-amd64/by-hash/SHA256/"
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	  "meta - SHA256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -" },
	{ ECO_APT, "GET /dists/b/main/binary-amd64/by-hash/SHA256/0123", "other - - -" },
	{ ECO_APT, "GET /dists/b/main/i18n/Translation-en.xz", "meta - - -" },
	{ ECO_APT, "GET /pool/main/libs/libstdc++6_12.2.0-14_amd64.deb",
	  "file libstdc++6 12.2.0-14 libstdc++6_12.2.0-14_amd64.deb" },
	{ ECO_APT, "GET /pool/main/g/gcc-12/libstdc%2B%2B6_12.2.0-14%2Bdeb12u1_amd64.deb",
	  "file libstdc++6 12.2.0-14+deb12u1 libstdc++6_12.2.0-14+deb12u1_amd64.deb" },
	{ ECO_APT, "GET /pool/v/vim_2:9.0~1_amd64.deb", "file vim 2:9.0~1 vim_2:9.0~1_amd64.deb" },
	{ ECO_APT, "GET /pool/v/vim_9.0.dsc", "file vim 9.0 vim_9.0.dsc source" },
	{ ECO_APT, "GET /pool/v/vim_9.0.orig.tar.xz", "file vim 9.0 vim_9.0.orig.tar.xz source" },
	{ ECO_APT, "GET /pool/v/vim_9.0-1.debian.tar.xz",
	  "file vim 9.0-1 vim_9.0-1.debian.tar.xz source" },
	{ ECO_APT, "GET /pool/v/Vim_9.0_amd64.deb", "other - - -" },
	{ ECO_APT, "GET /pool/v/vim_9.0.deb", "other - - -" },
	{ ECO_APT, "GET /pool/v/vim__amd64.deb", "other - - -" },
	{ ECO_APT, "GET /pool/v/vim_9.0_a_b.deb", "other - - -" },
	{ ECO_APT, "GET /dists/b/vim_9.0_amd64.deb", "other - - -" },
	{ ECO_APT, "GET /pool/v/%20/vim_9.0_amd64.deb", "other - - -" },
	{ ECO_APT, "GET /keys/archive.asc", "key - - -" },
	{ ECO_APT, "GET /", "other - - -" },
	/* cargo */
	{ ECO_CARGO, "GET /config.json", "index - - -" },
	{ ECO_CARGO, "GET /1/a", "meta a - -" },
	{ ECO_CARGO, "GET /2/ab", "meta ab - -" },
	{ ECO_CARGO, "GET /3/a/abc", "meta abc - -" },
	{ ECO_CARGO, "GET /se/rd/serde_json", "meta serde-json - -" },
	{ ECO_CARGO, "GET /1/ab", "other - - -" },
	{ ECO_CARGO, "GET /3/b/abc", "other - - -" },
	{ ECO_CARGO, "GET /se/rd/other", "other - - -" },
	{ ECO_CARGO, "GET /Se/rd/Serde", "other - - -" },
	{ ECO_CARGO, "GET /crates/serde_json/serde_json-1.0.0.crate",
	  "file serde-json 1.0.0 serde_json-1.0.0.crate" },
	{ ECO_CARGO, "GET /crates/serde_json/serde-json-1.0.0.crate", "other - - -" },
	{ ECO_CARGO, "GET /crates/a/a-1.0.0%2Bx.crate", "file a 1.0.0+x a-1.0.0+x.crate" },
	{ ECO_CARGO, "GET /api/v1/crates/a-b/1.0.0-rc.1/download", "file a-b 1.0.0-rc.1 -" },
	{ ECO_CARGO, "GET /api/v1/crates?q=x", "search - - -" },
	{ ECO_CARGO, "GET /api/v1/crates/serde", "meta serde - -" },
	{ ECO_CARGO, "PUT /api/v1/crates/new", "publish - - -" },
	{ ECO_CARGO, "DELETE /api/v1/crates/a/1.0.0/yank", "publish a 1.0.0 -" },
	{ ECO_CARGO, "GET /me", "auth - - -" },
	{ ECO_CARGO, "GET /info/refs?service=git-upload-pack", "other - - -" },
	/* Go */
	{ ECO_GO, "GET /github.com/!azure/x/@v/list", "meta github.com/Azure/x - -" },
	{ ECO_GO, "GET /golang.org/x/text/@latest", "meta golang.org/x/text - -" },
	{ ECO_GO, "GET /golang.org/x/text/@v/v0.3.0.info", "filemeta golang.org/x/text v0.3.0 -" },
	{ ECO_GO, "GET /golang.org/x/text/@v/main.info", "filemeta golang.org/x/text main -" },
	{ ECO_GO, "GET /golang.org/x/text/@v/v0.3.0.zip", "file golang.org/x/text v0.3.0 -" },
	{ ECO_GO, "GET /a.b/c/@v/v2.0.0%2Bincompatible.mod",
	  "filemeta a.b/c v2.0.0+incompatible -" },
	{ ECO_GO, "GET /a.b/c/@v/main.zip", "like - - -" },
	{ ECO_GO, "GET /github.com/Azure/x/@v/list", "like - - -" },
	{ ECO_GO, "GET /github.com/!Azure/x/@v/list", "like - - -" },
	{ ECO_GO, "GET /github.com/azure!/@v/list", "like - - -" },
	{ ECO_GO, "GET /a/@v/@v/list", "like - - -" },
	{ ECO_GO, "GET /lookup/golang.org/x/text@v0.3.0", "key golang.org/x/text v0.3.0 -" },
	{ ECO_GO, "GET /sumdb/sum.example/lookup/a.b/!c@v1.0.0", "key a.b/C v1.0.0 sum.example" },
	{ ECO_GO, "GET /sumdb/sum.example/tile/8/0/x001/234", "key - - sum.example" },
	{ ECO_GO, "GET /sumdb/sum.example/supported", "key - - sum.example" },
	{ ECO_GO, "GET /sumdb/DATA=1~2/supported", "other - - -" },
	{ ECO_GO, "GET /tile/8/data/x001/234.p/17", "key - - -" },
	{ ECO_GO, "GET /tile/8/0/secret", "other - - -" },
	{ ECO_GO, "GET /tile/8/0/x00a", "other - - -" },
	{ ECO_GO, "GET /tile/8/0/1234", "other - - -" },
	{ ECO_GO, "GET /tile/8/0/1/2/3/4/5/6/7", "other - - -" },
	{ ECO_GO, "GET /tile/8/0", "other - - -" },
	{ ECO_GO, "GET /tile/8/0/.p", "other - - -" },
	{ ECO_GO, "GET /sumdb/sum.example/tile/8/0/x001/", "other - - -" },
	{ ECO_GO, "GET /lookup/x@@v1", "other - - -" },
	/* git */
	{ ECO_GIT, "GET /Org/Repo.git/info/refs?service=git-upload-pack", "meta org/repo - -" },
	{ ECO_GIT, "GET /org/repo/info/refs?service=git-receive-pack", "publish org/repo - -" },
	{ ECO_GIT, "GET /org/repo/info/refs?service=other", "like - - -" },
	{ ECO_GIT, "GET /org/repo/info/refs?service=git-upload-pack&service=git-receive-pack",
	  "like - - -" },
	{ ECO_GIT, "GET /org/repo/info/refs", "meta org/repo - -" },
	{ ECO_GIT, "POST /org/repo/git-upload-pack", "file org/repo - -" },
	{ ECO_GIT, "POST /org/repo/git-receive-pack", "publish org/repo - -" },
	{ ECO_GIT, "PUT /org/repo/git-upload-pack", "like - - -" },
	{ ECO_GIT, "GET /o/p/_git/r/info/refs?service=git-upload-pack", "meta o/p/_git/r - -" },
	{ ECO_GIT, "GET /org/repo/HEAD", "meta org/repo - -" },
	{ ECO_GIT, "GET /org/repo/objects/ab/0123456789012345678901234567890123456789",
	  "like - - -" },
	{ ECO_GIT, "GET /org/repo/objects/ab/01234567890123456789012345678901234567",
	  "file org/repo - 01234567890123456789012345678901234567" },
	{ ECO_GIT, "GET /r/objects/x/f", "other - - -" },
	{ ECO_GIT, "GET /org/repo/objects/pack/pack-0123456789012345678901234567890123456789.pack",
	  "file org/repo - pack-0123456789012345678901234567890123456789.pack" },
	{ ECO_GIT, "GET /org/repo/objects/pack/../x", "like - - -" },
	{ ECO_GIT, "POST /org/repo/info/lfs/objects/batch", "publish org/repo - -" },
	{ ECO_GIT, "GET /org/repo/archive/v1.0.tar.gz", "file org/repo v1.0 - source" },
	{ ECO_GIT, "GET /org/repo/archive/refs/tags/v1.0.zip", "file org/repo v1.0 - source" },
	{ ECO_GIT, "GET /org/repo/tar.gz/v1.0", "file org/repo v1.0 - source" },
	{ ECO_GIT, "GET /org/repo/releases/download/v1/x-1.tgz",
	  "file org/repo v1 x-1.tgz source" },
	{ ECO_GIT, "GET /o/r/archive/refs/heads/a/b.tar.gz", "file o/r a/b - source" },
	{ ECO_GIT, "GET /o/r/archive/feature/x.zip", "file o/r feature/x - source" },
	{ ECO_GIT, "GET /o/r/tar.gz/refs/heads/a/b", "file o/r a/b - source" },
	{ ECO_GIT, "GET /o/r/tar.gz/refs/pull/1/head", "file o/r refs/pull/1/head - source" },
	{ ECO_GIT, "GET /o/r/tar.gz/main?token=x", "file o/r main - source" },
	{ ECO_GIT, "GET /o/zip/zip/main", "file o/zip main - source" },
	{ ECO_GIT, "GET /o/r/releases/latest/download/tool.tgz",
	  "file o/r latest tool.tgz source" },
	{ ECO_GIT, "GET /o/r/releases/download/cli%2Fv1/x.tgz", "file o/r cli/v1 x.tgz source" },
	{ ECO_GIT, "GET /g/s/r/-/archive/a/b/r-a-b.zip", "file g/s/r a/b r-a-b.zip source" },
	{ ECO_GIT, "GET /g/r/-/archive/main.tar.gz", "file g/r main - source" },
	/* Not understood, and a server may understand it: refused. */
	{ ECO_GIT, "GET /o/r.git/info/refs?service=git-upload-pack&a=1", "like - - -" },
	{ ECO_GIT, "POST /o/r.git/git-upload-pack?a=1", "like - - -" },
	{ ECO_GIT, "POST /o//r.git/git-upload-pack", "like - - -" },
	{ ECO_GIT, "GET //o/r.git/info/refs", "like - - -" },
	{ ECO_GIT, "GET /o%2Fr.git/info/refs", "like - - -" },
	{ ECO_GIT, "GET /o/r.git/info%2Frefs", "like - - -" },
	{ ECO_GIT, "GET /o/r.git/INFO/Refs", "like - - -" },
	{ ECO_GIT, "GET /o/r.git/info/refs/", "like - - -" },
	{ ECO_GIT, "GET /o/r.git/info;a/refs.;b=1", "like - - -" },
	{ ECO_GIT, "GET /o/r/objects/pack/pack-0.pack?x", "like - - -" },
	{ ECO_GIT, "GET /o/r/archive/main", "like - - -" },
	{ ECO_GIT, "GET /o/r/archive/a%23b.zip", "like - - -" },
	{ ECO_GIT, "GET /o/r/zipball/", "like - - -" },
	{ ECO_GIT, "GET /o/r/tree/main/zip/a/b", "other - - -" },
	{ ECO_GIT, "GET /o/r/blob/main/info.refs", "other - - -" },
	{ ECO_GIT, "GET /org/../info/refs", "like - - -" },
	{ ECO_GIT, "GET /org/repo", "other - - -" },
	/* OCI */
	{ ECO_OCI, "GET /v2/", "index - - -" },
	{ ECO_OCI, "GET /v2/library/busybox/manifests/latest", "meta library/busybox latest -" },
	{ ECO_OCI, "GET /v2/library/busybox/manifests/sha256:00", "like - - -" },
	{ ECO_OCI,
	  "GET /v2/a/blobs/sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	  "file a sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -" },
	{ ECO_OCI, "GET /v2/a/blobs/latest", "like - - -" },
	{ ECO_OCI, "GET /v2/A/manifests/latest", "like - - -" },
	{ ECO_OCI, "POST /v2/a/blobs/uploads/?mount=x", "publish a - -" },
	{ ECO_OCI, "PUT /v2/a/manifests/latest", "publish a latest -" },
	{ ECO_OCI, "GET /v2/_catalog", "search - - -" },
	{ ECO_OCI,
	  "GET /v2/a/blobs/sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	  "?ns=docker.io",
	  "like - - -" },
	{ ECO_OCI, "GET /v2/a/manifests/latest?ns=docker.io", "like - - -" },
	{ ECO_OCI, "GET /v2/a//x/manifests/latest", "like - - -" },
	{ ECO_OCI, "GET //v2/a/manifests/latest", "like - - -" },
	{ ECO_OCI, "GET /V2/a/manifests/latest", "like - - -" },
	{ ECO_OCI, "GET /v2%2Fa%2Fmanifests%2Flatest", "like - - -" },
	{ ECO_OCI, "GET /v2", "like - - -" },
	{ ECO_OCI, "GET /v1/images", "other - - -" },
	/* Maven */
	{ ECO_MAVEN, "GET /org/example/tool/maven-metadata.xml", "meta org.example:tool - -" },
	{ ECO_MAVEN, "GET /org/example/tool/maven-metadata.xml.sha1",
	  "filemeta org.example:tool - -" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0.jar",
	  "file org.example:tool 1.0 tool-1.0.jar" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0-sources.jar",
	  "file org.example:tool 1.0 tool-1.0-sources.jar" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0.pom",
	  "filemeta org.example:tool 1.0 tool-1.0.pom" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0.jar.sha1",
	  "filemeta org.example:tool 1.0 tool-1.0.jar.sha1" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0-SNAPSHOT/tool-1.0-20260101.010101-1.jar",
	  "file org.example:tool 1.0-SNAPSHOT tool-1.0-20260101.010101-1.jar" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/evil-1.0.jar", "other - - -" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.01.jar", "other - - -" },
	{ ECO_MAVEN, "GET /org.example/tool/1.0/tool-1.0.jar", "other - - -" },
	{ ECO_MAVEN, "PUT /org/example/tool/1.0/tool-1.0.jar", "publish - - -" },
	/* RubyGems */
	{ ECO_GEM, "GET /versions", "index - - -" },
	{ ECO_GEM, "GET /info/rails", "meta rails - -" },
	{ ECO_GEM, "GET /api/v1/versions/rails.json", "meta rails - -" },
	{ ECO_GEM, "GET /gems/rails-7.0.1.gem", "file rails 7.0.1 rails-7.0.1.gem" },
	{ ECO_GEM, "GET /gems/nokogiri-1.15.0-x86_64-linux.gem",
	  "file nokogiri 1.15.0 nokogiri-1.15.0-x86_64-linux.gem" },
	{ ECO_GEM, "GET /gems/nokogiri-1.15.0-arm64-darwin-21.gem",
	  "file nokogiri 1.15.0 nokogiri-1.15.0-arm64-darwin-21.gem" },
	{ ECO_GEM, "GET /gems/a-2-1.gem", "other - - -" },
	{ ECO_GEM, "GET /gems/rails.gem", "other - - -" },
	{ ECO_GEM, "POST /api/v1/gems", "publish - - -" },
	{ ECO_GEM, "GET /api/v1/dependencies?gems=a,b", "other - - -" },
};

/* A direct URL; the ecosystem stands before the rest of what is wanted. */
static const struct row direct[] = {
	{ ECO_PYPI, "GET /a/demo-1.0.tar.lz", "file - - demo-1.0.tar.lz source" },
	{ ECO_PYPI, "GET /a/demo-1.0.tar.zst", "file - - demo-1.0.tar.zst source" },
	{ ECO_APT, "GET /a/demo-dbg_1.0_amd64.ddeb", "file demo-dbg 1.0 demo-dbg_1.0_amd64.ddeb" },
	{ ECO_PYPI, "GET /x/demo-1.0-py3-none-any.whl", "file demo 1.0 demo-1.0-py3-none-any.whl" },
	{ ECO_PYPI, "GET /x/demo-1.0-py3-none-any.whl?token=1",
	  "file demo 1.0 demo-1.0-py3-none-any.whl" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.TAR.GZ", "file - - demo-1.0.TAR.GZ source" },
	{ ECO_PYPI, "GET /a-2-1.0.tar.gz", "file - - a-2-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /%C3%A9.zip", "file - - - source" },
	{ ECO_NPM, "GET /dl/left-pad-1.3.0.tgz", "file left-pad 1.3.0 left-pad-1.3.0.tgz source" },
	{ ECO_CARGO, "GET /serde_json-1.0.0.crate",
	  "file serde-json 1.0.0 serde_json-1.0.0.crate source" },
	{ ECO_GEM, "GET /rails-7.0.1.gem", "file rails 7.0.1 rails-7.0.1.gem" },
	{ ECO_APT, "GET /x/vim_9.0_amd64.deb", "file vim 9.0 vim_9.0_amd64.deb" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0.jar",
	  "file org.example:tool 1.0 tool-1.0.jar" },
	{ ECO_MAVEN, "GET /tool.jar", "file - - tool.jar" },
	{ ECO_GO, "GET /a.b/c/@v/v1.0.0.zip", "file a.b/c v1.0.0 -" },
	{ ECO_GIT, "GET /org/repo/archive/v1.0.zip", "file org/repo v1.0 - source" },
	{ ECO_GIT, "GET /org/repo.git/info/refs?service=git-upload-pack", "meta org/repo - -" },
	{ ECO_GIT, "POST /org/repo.git/git-receive-pack", "publish org/repo - -" },
	/* As pip reads it: slashes at the end do not count. */
	{ ECO_PYPI, "GET /x/demo-1.0-py3-none-any.whl/",
	  "file demo 1.0 demo-1.0-py3-none-any.whl" },
	{ ECO_NPM, "GET /left-pad-1.3.0.tgz%2F", "file left-pad 1.3.0 left-pad-1.3.0.tgz source" },
	{ ECO_NPM, "GET /left-pad-1.3.0.tgz%20//",
	  "file left-pad 1.3.0 left-pad-1.3.0.tgz source" },
	{ ECO_MAVEN, "GET /org/example/tool/1.0/tool-1.0.jar/",
	  "file org.example:tool 1.0 tool-1.0.jar" },
	{ ECO_NPM, "GET /mirror/@a/b/-/b-1.0.0.tgz", "file @a/b 1.0.0 b-1.0.0.tgz source" },
	{ ECO_NPM, "GET /mirror/@a%2Fb/-/b-1.0.0.tgz", "file @a/b 1.0.0 b-1.0.0.tgz source" },
	{ ECO_NPM, "GET /mirror/b/-/b-1.0.0.tgz", "file b 1.0.0 b-1.0.0.tgz source" },
	{ ECO_GO, "GET /a.b/c/@v/list", "meta a.b/c - -" },
	{ ECO_GO, "GET /a.b/c/@v/v1.0.0.zip?x", "like - - -" },
	{ ECO_GO, "GET /a.b/c/@v//v1.0.0.zip", "like - - -" },
	{ ECO_GO, "GET /a.b/C/@v/v1.0.0.zip", "like - - -" },
	{ ECO_GO, "GET /a.b/c%2F@V/v1.0.0.zip", "like - - -" },
	{ ECO_GIT, "GET /o/r.git/info/refs?service=git-upload-pack&a=1", "like - - -" },
	{ ECO_GIT, "POST /o/r.git/git-upload-pack?a=1", "like - - -" },
	{ ECO_GIT, "GET /o/r/objects/info/packs", "meta o/r - -" },
	{ ECO_GIT, "GET /o/r/archive/refs/heads/a/b.tar.gz", "file o/r a/b - source" },
	{ ECO_OCI, "GET /v2/a/b/manifests/latest", "meta a/b latest -" },
	{ ECO_OCI, "GET /v2/a/b/manifests/latest?ns=x", "like - - -" },
	{ ECO_OCI, "GET /v2/a%2Fb/tags/list", "like - - -" },
	{ ECOSYSTEMS, "GET /v1/geo/zip/us/90210", "" },
	{ ECOSYSTEMS, "GET /v2/users/blobs", "" },
	{ ECOSYSTEMS, "GET //", "" },
	{ ECOSYSTEMS, "GET /%2F%2f", "" },
	{ ECOSYSTEMS, "GET /index.html", "" },
	{ ECOSYSTEMS, "GET /", "" },
	{ ECOSYSTEMS, "GET /x/HEAD", "" },
	{ ECO_PYPI, "POST /demo-1.0.tar.gz", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "get /demo-1.0.tar.gz", "file demo 1.0 demo-1.0.tar.gz source" },
	/* As lenient servers read it. */
	{ ECO_PYPI, "GET /demo-1.0.tar.gz;x", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz;", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz%3bx;y", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz;x%2Fy", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /a/demo-1.0.tar.gz/;x", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz.", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /demo-1.0.tar.gz+%20.;x", "file demo 1.0 demo-1.0.tar.gz source" },
	{ ECO_PYPI, "GET /get;demo-1.0.tar.gz;x", "file - - - source" },
	{ ECOSYSTEMS, "GET /;", "" },
	{ ECOSYSTEMS, "GET ;", "" },
	{ ECOSYSTEMS, "GET /a;b;c", "" },
};

struct parts {
	bool files;
	char method[16], path[600], *query;
};

static void cut_request(const char *text, struct parts *ret)
{
	const char *space;

	ret->files = strncmp(text, "F ", 2) == 0;
	text += ret->files ? 2 : 0;
	space = strchr(text, ' ');
	(void)snprintf(ret->method, sizeof(ret->method), "%.*s", (int)(space - text), text);
	(void)snprintf(ret->path, sizeof(ret->path), "%s", space + 1);
	ret->query = strchr(ret->path, '?');
	if (ret->query != NULL)
		*ret->query++ = '\0';
}

static const char *or_dash(const char *text)
{
	return text[0] == '\0' ? "-" : text;
}

static void show(const struct package_request *r, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%s %s %s %s%s",
		       r->is_lookalike ? "like" : package_kind_name(r->kind), or_dash(r->name),
		       or_dash(r->version), or_dash(r->file), r->source ? " source" : "");
}

static void reads_every_row(void)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct package_request r;
		struct parts p;
		char got[1024];

		cut_request(rows[i].request, &p);
		package_request_read(rows[i].eco, p.files, p.method, p.path, p.query, &r);
		show(&r, got, sizeof(got));
		if (strcmp(got, rows[i].want) != 0 || r.ecosystem != rows[i].eco) {
			printf("# %s: %s, want %s\n", rows[i].request, got, rows[i].want);
			wrong++;
		}
	}
	CHECK(wrong == 0);
}

static void reads_direct_urls(void)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++) {
		struct package_request r;
		struct parts p;
		char got[1024] = "";
		bool is;

		cut_request(direct[i].request, &p);
		is = package_request_direct(p.method, p.path, p.query, &r);
		if (is)
			show(&r, got, sizeof(got));
		if (strcmp(got, direct[i].want) != 0 || (is && r.ecosystem != direct[i].eco)) {
			printf("# %s: %s, want %s\n", direct[i].request, got, direct[i].want);
			wrong++;
		}
	}
	CHECK(wrong == 0);
}

static void keeps_names_as_written(void)
{
	struct package_request r;

	package_request_read(ECO_CARGO, false, "GET", "/crates/Serde_Json/Serde_Json-1.0.0.crate",
			     NULL, &r);
	CHECK_STR(r.name, "serde-json");
	CHECK_STR(r.written, "Serde_Json");
	package_request_read(ECO_GO, false, "GET", "/a.b/!c/@v/list", NULL, &r);
	CHECK_STR(r.written, "a.b/C");
	package_request_read(ECO_GIT, false, "POST", "/Org/Repo.git/git-upload-pack", NULL, &r);
	CHECK_STR(r.written, "Org/Repo");
}

/* A name, a version and a path of any length: bounded or not understood. */
static void refuses_long_names(void)
{
	static char path[12000];
	struct package_request r;

	for (size_t n = 200; n < 10000; n = n < 300 ? n + 1 : n + 997) {
		memset(path, 'a', sizeof(path));
		memcpy(path, "/simple/", 8);
		memcpy(path + 8 + n, "/", 2);
		package_request_read(ECO_PYPI, false, "GET", path, NULL, &r);
		CHECK((r.kind == PACKAGE_META) == (n < PACKAGE_NAME_MAX));
		memcpy(path, "/a/bbbbb", 8);
		path[8 + n] = '\0';
		package_request_read(ECO_NPM, false, "GET", path, NULL, &r);
		CHECK((r.kind == PACKAGE_META) == (n + 5 < PACKAGE_VERSION_MAX));
	}
	memset(path, '/', sizeof(path) - 1);
	for (int eco = 0; eco < ECOSYSTEMS; eco++) {
		package_request_read((enum ecosystem)eco, false, "GET", path, NULL, &r);
		CHECK(r.kind == PACKAGE_OTHER);
	}
}

static void knows_ecosystems(void)
{
	enum ecosystem eco;

	for (int i = 0; i < ECOSYSTEMS; i++) {
		const char *name = ecosystem_name((enum ecosystem)i);

		CHECK(ecosystem_read(name, strlen(name), &eco) && (int)eco == i);
	}
	CHECK(!ecosystem_read("np", 2, &eco) && !ecosystem_read("", 0, &eco));
}

TEST_MAIN({ "reads every row of the tables, and refuses what is odd", reads_every_row },
	  { "reads direct URLs", reads_direct_urls },
	  { "keeps names as registries write them", keeps_names_as_written },
	  { "refuses names and versions that are too long", refuses_long_names },
	  { "knows the names of ecosystems", knows_ecosystems })
