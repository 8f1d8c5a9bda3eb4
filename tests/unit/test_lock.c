/* Lockfiles as tools write them, what is skipped, and errors with their lines. Files written by the
 * tools themselves are in tests/packages/lock, compared by another reader. */
#include "test.h"

#include "lib/packages/lock.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C64 "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define H1 "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

struct got {
	char text[4096];
	size_t n;
};

/* "npm:a@1 sha256:aa" with the first two digits of each digest. */
static int on_pin(void *arg, const struct lock_pin *pin, struct err *e)
{
	struct got *g = arg;

	g->n += (size_t)snprintf(g->text + g->n, sizeof(g->text) - g->n, "%s%s:%s@%s",
				 g->n == 0 ? "" : "; ", ecosystem_name(pin->ecosystem), pin->name,
				 pin->version);
	for (size_t i = 0; i < pin->ndigests; i++) {
		char text[DIGEST_TEXT_MAX];

		digest_write(&pin->digests[i], text);
		g->n += (size_t)snprintf(g->text + g->n, sizeof(g->text) - g->n, " %.9s", text);
	}
	return 0;
}

static void check(const char *name, const char *text, const char *want)
{
	struct got g = { .n = 0 };
	struct err e = { 0 };

	if (lock_read(name, text, strlen(text), on_pin, &g, &e) < 0)
		(void)snprintf(g.text, sizeof(g.text), "%s", e.msg);
	CHECK_STR(g.text, want);
}

static void npm(void)
{
	check("package-lock.json",
	      "{\"lockfileVersion\": 3, \"packages\": {\n"
	      "\"\": {\"name\": \"project\", \"version\": \"1.0.0\"},\n"
	      "\"packages/own\": {\"version\": \"1.0.0\"},\n"
	      "\"node_modules/own\": {\"resolved\": \"packages/own\", \"link\": true},\n"
	      "\"node_modules/a\": {\"version\": \"1.0.0\", \"integrity\": "
	      "\"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=\"},\n"
	      "\"node_modules/a/node_modules/@s/b\": {\"version\": \"2.0.0\"},\n"
	      "\"node_modules/c\": {\"name\": \"real\", \"version\": \"3.0.0\"},\n"
	      "\"node_modules/d\": {\"version\": \"1.0.0\", \"resolved\": "
	      "\"git+ssh://git@h/d.git#1\"},\n"
	      "\"node_modules/f\": {\"version\": \"1.0.0\", \"resolved\": \"https://h/f.tgz\"},\n"
	      "\"node_modules/@s/g\": {\"version\": \"1.0.0\", \"resolved\": "
	      "\"https://h/x/@s/g/-/g-1.0.0.tgz\"},\n"
	      "\"node_modules/e\": {\"version\": \"1.0.0\", \"inBundle\": true}}}",
	      "npm:a@1.0.0 sha1:0000; npm:@s/b@2.0.0; npm:real@3.0.0; npm:@s/g@1.0.0");
	check("npm-shrinkwrap.json",
	      "{\"lockfileVersion\": 1, \"dependencies\": {\"a\": {\"version\": \"1.0.0\",\n"
	      "\"dependencies\": {\"b\": {\"version\": \"npm:@s/x@2.0.0\"}}},\n"
	      "\"c\": {\"version\": \"file:../c\"}, \"d\": {\"version\": \"1.0.0\", \"bundled\": "
	      "true}}}",
	      "npm:@s/x@2.0.0; npm:a@1.0.0");
	/* Members in another order, of the wrong kind, and twice: the first one counts. */
	check("package-lock.json",
	      "{\"lockfileVersion\": 1, \"dependencies\": {\"a\": {\"dependencies\":\n"
	      "{\"b\": {\"requires\": {\"version\": \"9\", \"x\": [[{}], 1]}, \"version\": "
	      "\"2.0.0\"},"
	      " \"n\": null, \"l\": [{\"version\": \"1\"}]}, \"version\": \"1.0.0\", \"version\": "
	      "\"3.0.0\"}}}",
	      "npm:b@2.0.0; npm:a@1.0.0");
	check("package-lock.json",
	      "{\"lockfileVersion\": 3, \"packages\": {\"node_modules/a\": {\"dependencies\":\n"
	      "{\"b\": {\"version\": \"2.0.0\"}}, \"version\": \"1.0.0\"}}}",
	      "npm:a@1.0.0");
	check("package-lock.json",
	      "{\"lockfileVersion\": 3, \"packages\": {\n\n\"node_modules/a b\": {}}}",
	      "package-lock.json: line 3: this is not the name of a package");
	check("package-lock.json",
	      "{\"lockfileVersion\": 3, \"packages\": {\n\"node_modules/a\": {\"version\": \"1\",\n"
	      "\"integrity\": \"x\"}}}",
	      "package-lock.json: line 2: this is not an integrity value");
	check("package-lock.json", "{\"lockfileVersion\": 3,\n\"packages\": x}",
	      "package-lock.json: line 2, byte 35: not JSON, or nested too deeply");
	check("package-lock.json", "{}", "package-lock.json: line 1: there is no lockfileVersion");
}

static void yarn(void)
{
	check("yarn.lock",
	      "# yarn lockfile v1\n\n\"@s/a@^1.0.0\", \"@s/a@~1.1\":\n  version \"1.1.0\"\n"
	      "  resolved \"https://h/a.tgz#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n"
	      "  dependencies:\n    version \"^9\"\n\n"
	      "b@npm:real@^2:\n  version \"2.0.0\"\n  resolved "
	      "\"https://h/real/-/real-2.0.0.tgz\"\n\n"
	      "g@org/g:\n  version \"1.0.0\"\n  resolved "
	      "\"https://h/org/g/tar.gz/12\"\n\nc@file:../c:\n  version \"0.0.0\"\n  "
	      "resolved \"file:../c\"\n",
	      "npm:@s/a@1.1.0 sha1:aaaa; npm:real@2.0.0");
	check("yarn.lock",
	      "__metadata:\n  version: 8\n  cacheKey: 10c0\n\n\"a@npm:^1.0.0\":\n  version: 1.0.0\n"
	      "  resolution: \"a@npm:1.0.0\"\n  checksum: 10c0/aa\n\n\"p@workspace:.\":\n"
	      "  version: 0.0.0-use.local\n  resolution: \"p@workspace:.\"\n",
	      "npm:a@1.0.0");
	check("yarn.lock", "a@1:\n  version \"1.0.0\"\n\nb@2\n",
	      "yarn.lock: line 4: an entry must end with a colon");
	check("yarn.lock", "\":\n", "yarn.lock: line 1: an entry without a range");
	check("yarn.lock", "\"\":\n", "yarn.lock: line 1: an entry without a range");
	check("yarn.lock", "\",:\n", "yarn.lock: line 1: an entry without a range");
	check("yarn.lock", ":\n", "yarn.lock: line 1: an entry without a range");
	check("yarn.lock", "\"@:\n", "yarn.lock: line 1: an entry without a range");
	check("yarn.lock", "\"a@>=1, <2\":\n  version \"1.0.0\"\n  integrity \"\n",
	      "yarn.lock: line 3: this is not an integrity value");
	check("yarn.lock",
	      "\"a@>=1, <2\":\n  version \"1.0.0\"\n  resolved \"https://h/a/-/a-1.0.0.tgz\"\n",
	      "npm:a@1.0.0");
	check("yarn.lock", "a@1:\n  resolved \"https://h/a\"\n",
	      "yarn.lock: line 1: an entry without a version");
}

static void pnpm(void)
{
	check("pnpm-lock.yaml",
	      "lockfileVersion: 5.4\n\ndependencies:\n  a: 1.0.0\n\npackages:\n\n  "
	      "/@s/a/1.0.0_b@2.0.0:\n"
	      "    resolution: {integrity: sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=}\n    dev: false\n\n"
	      "  /my_b/2.0.0:\n    resolution:\n      integrity: "
	      "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n"
	      "  file:../c:\n    resolution: {directory: ../c, type: directory}\n",
	      "npm:@s/a@1.0.0 sha1:0000; npm:my_b@2.0.0 sha1:0000");
	check("pnpm-lock.yaml",
	      "lockfileVersion: '6.0'\npackages:\n  /my_a@1.0.0(b@2.0.0)(c@3.0.0):\n"
	      "    resolution: {integrity: sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=}\n",
	      "npm:my_a@1.0.0 sha1:0000");
	check("pnpm-lock.yaml",
	      "lockfileVersion: '9.0'\npackages:\n  '@s/a@1.0.0':\n"
	      "    resolution: {integrity: sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=}\n"
	      "  https://h/x.tgz:\n    resolution: {tarball: https://h/x.tgz}\n"
	      "snapshots:\n  '@s/a@1.0.0':\n    dependencies:\n      b: 1\n",
	      "npm:@s/a@1.0.0 sha1:0000");
	check("pnpm-lock.yaml",
	      "lockfileVersion: 9\npackages:\n  a@1.0.0:\n    resolution: {  , ,  integrity:   "
	      "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=,  }\n",
	      "npm:a@1.0.0 sha1:0000");
	check("pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  a@1.0.0:\n    resolution: {}\n",
	      "npm:a@1.0.0");
	check("pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  ':\n  :\n  /:\n", "");
	check("pnpm-lock.yaml", "packages:\n",
	      "pnpm-lock.yaml: line 1: there is no lockfileVersion");
	check("pnpm-lock.yaml", "lockfileVersion: 4\n",
	      "pnpm-lock.yaml: line 1: this lockfileVersion is not known");
	check("pnpm-lock.yaml",
	      "lockfileVersion: 9\npackages:\n  a@1.0.0:\n    resolution: {integrity: x}\n",
	      "pnpm-lock.yaml: line 4: this is not an integrity value");
}

static void requirements(void)
{
	check("dir/requirements-dev.txt",
	      "# made by pip-compile\n--index-url https://h/simple\nDemo_Pkg[x,y]==1.0 ; "
	      "python_version > '3' \\\n"
	      "    --hash=sha256:" A64 " \\\n    --hash=sha256:" B64
	      "\n    # via other\nother==2.0  # comment\n",
	      "pypi:demo-pkg@1.0 sha256:aa sha256:bb; pypi:other@2.0");
	check("requirements.txt", "a==1\nb>=2\n",
	      "requirements.txt: line 2: only an exact version (NAME==VERSION) is a pin");
	check("requirements.txt", "a==1.*\n",
	      "requirements.txt: line 1: only an exact version (NAME==VERSION) is a pin");
	check("requirements.txt", "-r more.txt\n",
	      "requirements.txt: line 1: an option that names other packages cannot be a pin");
	check("requirements.txt", "a @ https://h/a.whl\n",
	      "requirements.txt: line 1: only an exact version (NAME==VERSION) is a pin");
	check("requirements.txt", "a==1 \\\n --hash=sha256:12\n",
	      "requirements.txt: line 2: this is not a digest");
}

static void toml_of_python(void)
{
	check("poetry.lock",
	      "[[package]]\nname = \"A.b\"\nversion = \"1.0\"\ndescription = \"x ] \\\" y\"\nfiles "
	      "= [\n"
	      "    {file = \"a.whl\", hash = \"sha256:" A64
	      "\"},\n    {file = \"a.tar.gz\", hash = \"sha256:" B64
	      "\"},\n]\n\n[package.dependencies]\nversion = \"9\"\n\n[[package]]\nname = "
	      "\"g\"\nversion = \"1\"\nfiles = []\n\n"
	      "[package.source]\ntype = \"git\"\n\n[metadata]\nlock-version = \"2.0\"\n",
	      "pypi:a-b@1.0 sha256:aa sha256:bb");
	check("poetry.lock",
	      "[[package]]\nname = \"a\"\nversion = \"1.0\"\n\n[metadata.files]\na = [\n"
	      "    {file = \"a-1.0-py3-none-any.whl\", hash = \"sha256:" C64 "\"},\n]\n",
	      "pypi:a@1.0 sha256:cc");
	check("uv.lock",
	      "version = 1\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = { registry = "
	      "\"https://h\" }\n"
	      "sdist = { url = \"https://h/a\", hash = \"sha256:" A64
	      "\", size = 1 }\nwheels = [\n    { url = \"u\", hash = \"sha256:" B64
	      "\", upload-time = 2026-01-01T00:00:00Z },\n]\n\n[[package]]\nname = \"p\"\nversion "
	      "= \"0.1\"\nsource = { virtual = \".\" }\n\n"
	      "[package.metadata]\nrequires-dist = [{ name = \"a\", specifier = \">1\" }]\n",
	      "pypi:a@1.0 sha256:aa sha256:bb");
	check("pylock.dev.toml",
	      "lock-version = '1.0'\n[[packages]]\nname = 'a'\nversion = '1.0'\nwheels = [{ name = "
	      "'w', hashes = { sha256 = '" A64
	      "' } }]\n[packages.sdist]\nname = 's'\n[packages.sdist.hashes]\nsha256 = '" B64
	      "'\n[[packages]]\nname = 'v'\nvcs = { type = 'git', commit-id = '1' }\n",
	      "pypi:a@1.0 sha256:aa sha256:bb");
	check("uv.lock", "[[package]]\nname = \"a\n", "uv.lock: line 2: a quote is not closed");
	check("uv.lock", "[[package]]\nname = [[[[[[[[[[[[[[[[[[1\n",
	      "uv.lock: line 2: nested too deeply");
	check("uv.lock", "\n[[package]]\nname = \"a\" b\n",
	      "uv.lock: line 3: something stands behind a value");
	check("uv.lock", "[[package]]\nname = \"a\"\nsdist = {hash = \"sha256:" A64 "\"}\n",
	      "uv.lock: line 1: an entry without a version");
}

static void cargo(void)
{
	check("Cargo.lock",
	      "version = 3\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n "
	      "\"Serde_x\",\n]\n\n"
	      "[[package]]\nname = \"Serde_x\"\nversion = \"1.0.0\"\nsource = "
	      "\"sparse+https://h/\"\nchecksum = \"" A64
	      "\"\n\n[[package]]\nname = \"g\"\nversion = \"1.0.0\"\nsource = "
	      "\"git+https://h/g#1\"\n",
	      "cargo:serde-x@1.0.0 sha256:aa");
	check("Cargo.lock",
	      "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = "
	      "\"registry+https://h\"\n\n[metadata]\n"
	      "\"checksum a 1.0.0 (registry+https://h)\" = \"" B64
	      "\"\n\"checksum b 1.0.0 (git+x)\" = \"<none>\"\n",
	      "cargo:a@1.0.0 sha256:bb");
	check("Cargo.lock", "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"12\"\n",
	      "Cargo.lock: line 4: this is not a digest");
}

static void go_sum(void)
{
	check("go.sum",
	      "h.x/Y v1.0.0 " H1 "\nh.x/Y v1.0.0/go.mod " H1
	      "\nh.x/z v2.0.0+incompatible/go.mod " H1 "\n",
	      "go:h.x/Y@v1.0.0 h1:AAAAAA; go:h.x/Y@v1.0.0/go.mod h1:AAAAAA; "
	      "go:h.x/z@v2.0.0+incompatible/go.mod h1:AAAAAA");
	check("go.sum", "h.x/y v1.0.0\n",
	      "go.sum: line 1: a line has a module, a version and a hash");
	check("go.sum", "h.x/y v1.0.0 h1:x\n", "go.sum: line 1: this is not a digest");
}

static void gem(void)
{
	check("Gemfile.lock",
	      "GEM\n  remote: https://h/\n  specs:\n    rails (7.0.1)\n      rack (~> "
	      "2)\n\nCHECKSUMS\n"
	      "  rails (7.0.1) sha256=" A64 "\n  nokogiri (1.15.0-x86_64-linux) sha256=" B64
	      "\n\nBUNDLED WITH\n   2.5\n",
	      "gem:rails@7.0.1 sha256:aa; gem:nokogiri@1.15.0 sha256:bb");
	check("Gemfile.lock",
	      "PATH\n  remote: .\n  specs:\n    own (0.1)\n\nGEM\n  specs:\n    rack (2.0)\n      "
	      "x (= 1)\n",
	      "gem:rack@2.0");
	check("Gemfile.lock", "GEM\n  specs:\n    rack 2.0\n",
	      "Gemfile.lock: line 3: an entry has a name and a version in brackets");
}

static int on_none(void *arg, const struct lock_pin *pin, struct err *e)
{
	CHECK(pin->ndigests == 1);
	return 0;
}

static void bounds(void)
{
	char *many = malloc(LOCK_PINS_MAX * 64 + 100);
	struct got g = { .n = 0 };
	struct err e = { 0 };
	size_t n = 0;

	CHECK(many != NULL);
	check("other.txt", "", "'other.txt' is not the name of a lockfile that is known");
	CHECK(lock_knows("a/Cargo.lock") && !lock_knows("Cargo.lock/x") && !lock_knows("xgo.sum"));
	CHECK(lock_read("go.sum", "a\0b", 3, on_pin, &g, &e) < 0);
	for (int i = 0; i <= LOCK_DIGESTS_MAX; i++)
		n += (size_t)snprintf(many + n, 200, "%s--hash=sha256:%064d \\\n",
				      i == 0 ? "a==1 " : "", i);
	CHECK(lock_read("requirements.txt", many, n, on_pin, &g, &e) < 0);
	CHECK_STR(e.msg, "requirements.txt: line 1025: a version has at most 1024 files");
	/* Lines of formats that have lines, and the digests of a whole file. */
	n = (size_t)snprintf(many, 20, "h.x/y ") + LOCK_LINE_MAX;
	memset(many + 6, ' ', LOCK_LINE_MAX);
	CHECK(lock_read("go.sum", many, n, on_pin, &g, &e) < 0);
	CHECK_STR(e.msg, "go.sum: line 1: a line of more than 65536 bytes");
	many = realloc(many, (LOCK_ALL_DIGESTS_MAX + 1) * 100);
	CHECK(many != NULL);
	n = 0;
	for (int i = 0; i <= LOCK_ALL_DIGESTS_MAX; i++)
		n += (size_t)snprintf(many + n, 100, "%s --hash=sha256:" A64 "%s\n",
				      i % 1000 == 0 ? "a==1" : "", i % 1000 == 999 ? "" : " \\");
	CHECK(lock_read("requirements.txt", many, n, on_none, NULL, &e) < 0);
	CHECK(e.code == ERR_LIMIT);
	CHECK_STR(e.msg, "requirements.txt: more than 65536 digests");
	free(many);
}

TEST_MAIN({ "package-lock.json, npm-shrinkwrap.json", npm }, { "yarn.lock", yarn },
	  { "pnpm-lock.yaml", pnpm }, { "requirements.txt", requirements },
	  { "poetry.lock, uv.lock, pylock.toml", toml_of_python }, { "Cargo.lock", cargo },
	  { "go.sum", go_sum }, { "Gemfile.lock", gem }, { "bounds", bounds })
