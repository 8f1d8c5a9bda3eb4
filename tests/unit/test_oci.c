/* Goal: documents of images are read exactly or refused with the reason: references, manifests,
 * indexes, configurations, whiteouts. */

#include <errno.h>
#include <stdbool.h>

#include "lib/oci/oci_config.h"
#include "lib/oci/oci_json.h"
#include "lib/oci/oci_manifest.h"
#include "lib/oci/oci_ref.h"

#include "support.h"

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define D3 "sha256:3333333333333333333333333333333333333333333333333333333333333333"

struct ref_case {
	const char *text, *want; /* NULL: refused */
};

/* clang-format off */
static const struct ref_case refs[] = {
	{ "python", "docker.io/library/python:latest" },
	{ "python:3.12-slim", "docker.io/library/python:3.12-slim" },
	{ "oven/bun:latest", "docker.io/oven/bun:latest" },
	{ "docker.io/python", "docker.io/library/python:latest" },
	{ "docker.io/library/python", "docker.io/library/python:latest" },
	{ "localhost/x", "localhost/x:latest" },
	{ "localhost:5000/x/y:T.1_2-3", "localhost:5000/x/y:T.1_2-3" },
	{ "Registry.Example.ORG/a", "registry.example.org/a:latest" },
	{ "[::1]:5000/a", "[::1]:5000/a:latest" },
	{ "a@" D1, "docker.io/library/a@" D1 },
	{ "a:t@" D1, "docker.io/library/a:t@" D1 },
	{ "a__b/c.d/e---f", "docker.io/a__b/c.d/e---f:latest" },
	{ "", NULL }, { "/", NULL }, { "a/", NULL }, { "/a", NULL }, { "a//b", NULL }, { "A", NULL },
	{ "a:", NULL }, { "a:.x", NULL }, { "a:-x", NULL }, { "a b", NULL }, { "a:b:c", NULL },
	{ "a/../b", NULL }, { "./a", NULL }, { "a_", NULL }, { "a___b", NULL }, { "a..b", NULL },
	{ "a@", NULL }, { "a@sha512:00", NULL }, { "a@" D1 "0", NULL }, { "a@" D1 ":t", NULL },
	{ "host:0/a", NULL }, { "host:65536/a", NULL }, { "host:/a", NULL }, { "-h.x/a", NULL },
	{ "h.x?/a", NULL }, { "u@h.x/a", NULL }, { "http://h.x/a", NULL }, { "[::1/a", NULL },
	{ "[zz]:1/a", NULL }, { "a\n", NULL },
};
/* clang-format on */

static void references(void)
{
	char text[OCI_REF_TEXT_MAX];
	struct oci_ref r, again;
	struct err e = { 0 };

	for (size_t i = 0; i < COUNT(refs); i++) {
		char *exact = exact_copy(refs[i].text, strlen(refs[i].text) + 1);
		int got = oci_ref_read(exact, &r, &e);

		free(exact);
		CHECK_CASE(refs[i].text, got == (refs[i].want == NULL ? -1 : 0));
		if (got < 0)
			continue;
		oci_ref_text(&r, text);
		CHECK_STR(text, refs[i].want);
		CHECK(oci_ref_read(text, &again, &e) == 0 && memcmp(&r, &again, sizeof(r)) == 0);
	}
}

static void registries_of_aws(void)
{
	static const struct {
		const char *host, *region, *api; /* NULL: not one */
	} cases[] = {
		{ "123456789012.dkr.ecr.eu-west-1.amazonaws.com", "eu-west-1",
		  "api.ecr.eu-west-1.amazonaws.com" },
		{ "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1",
		  "api.ecr.cn-north-1.amazonaws.com.cn" },
		{ "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1",
		  "ecr-fips.us-gov-west-1.amazonaws.com" },
		{ "12345678901.dkr.ecr.eu-west-1.amazonaws.com", NULL, NULL },
		{ "1234567890123.dkr.ecr.eu-west-1.amazonaws.com", NULL, NULL },
		{ "123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.test", NULL, NULL },
		{ "123456789012.dkr.ecr.evil.test.amazonaws.com", NULL, NULL },
		{ "123456789012.dkr.ecr.eu-west-1.amazonaws.com:5000", NULL, NULL },
		{ "123456789012.dkr.ecr..amazonaws.com", NULL, NULL },
		{ "123456789012.dkr.ecr.a-region-with-far-too-many-letters.amazonaws.com", NULL,
		  NULL },
		{ "docker.io", NULL, NULL },
		{ "", NULL, NULL },
	};
	struct oci_ecr ecr;

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *exact = exact_copy(cases[i].host, strlen(cases[i].host) + 1);
		bool is = oci_ecr_read(exact, &ecr);

		free(exact);
		CHECK_CASE(cases[i].host, is == (cases[i].region != NULL));
		CHECK_CASE(cases[i].host, !is || (strcmp(ecr.region, cases[i].region) == 0 &&
						  strcmp(ecr.api, cases[i].api) == 0));
	}
}

static void whiteouts(void)
{
	static const struct {
		const char *name;
		enum oci_whiteout want;
	} cases[] = {
		{ "a", OCI_WHITEOUT_NONE },
		{ ".wh", OCI_WHITEOUT_NONE },
		{ ".wh.a", OCI_WHITEOUT_ONE },
		{ ".wh..a", OCI_WHITEOUT_ONE },
		{ ".wh..wh..opq", OCI_WHITEOUT_OPAQUE },
		{ ".wh..wh.plnk", OCI_WHITEOUT_IGNORED },
		{ ".wh..wh.", OCI_WHITEOUT_IGNORED },
		{ ".wh.", OCI_WHITEOUT_BAD },
		{ ".wh..", OCI_WHITEOUT_BAD },
		{ ".wh...", OCI_WHITEOUT_BAD },
		{ ".wh....", OCI_WHITEOUT_ONE },
		{ ".wh..wh..opq2", OCI_WHITEOUT_IGNORED },
	};
	const char *name = "";

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].name, oci_whiteout_of(cases[i].name, &name) == cases[i].want);
	CHECK(oci_whiteout_of(".wh.gone", &name) == OCI_WHITEOUT_ONE);
	CHECK_STR(name, "gone");
}

#define CONFIG_PART                                                               \
	"\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\"," \
	"\"digest\":\"" D1 "\",\"size\":10}"
#define LAYER(type, digest) "{\"mediaType\":\"" type "\",\"digest\":\"" digest "\",\"size\":20}"
#define GZIP "application/vnd.oci.image.layer.v1.tar+gzip"
#define MANIFEST(rest) "{\"schemaVersion\":2," rest "}"

struct document {
	const char *text;
	const char *refused; /* a part of the message; NULL: it is taken */
};

/* clang-format off */
static const struct document manifests[] = {
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER(GZIP, D2) "]"), NULL },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER("application/vnd.docker.image.rootfs.diff.tar.gzip", D2) "]"), NULL },
	{ MANIFEST("\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\"," CONFIG_PART ",\"layers\":[" LAYER(GZIP, D2) "]"), NULL },
	{ MANIFEST("\"mediaType\":\"application/vnd.oci.image.index.v1+json\"," CONFIG_PART ",\"layers\":[" LAYER(GZIP, D2) "]"), "contradicts" },
	{ MANIFEST("\"mediaType\":\"x/y\"," CONFIG_PART ",\"layers\":[" LAYER(GZIP, D2) "]"), "contradicts" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER("application/vnd.oci.image.layer.nondistributable.v1.tar", D2) "]"), "must not be distributed" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", D2) "]"), "must not be distributed" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER("application/octet-stream", D2) "]"), "not supported" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[]"), "no layers" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[7]"), "layer 1" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER(GZIP, "sha512:00") "]"), "only sha256" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[" LAYER(GZIP, "sha256:00") "]"), "64" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[{\"mediaType\":\"" GZIP "\",\"digest\":\"" D2 "\",\"size\":-1}]"), "size" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[{\"mediaType\":\"" GZIP "\",\"digest\":\"" D2 "\"}]"), "size" },
	{ MANIFEST(CONFIG_PART ",\"layers\":[{\"mediaType\":\"" GZIP "\",\"digest\":\"" D2 "\",\"size\":9e99}]"), "size" },
	{ MANIFEST("\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"" D1 "\",\"size\":2},\"layers\":[" LAYER(GZIP, D2) "]"), "not an image" },
	{ MANIFEST("\"layers\":[" LAYER(GZIP, D2) "]"), "config" },
	{ "{\"schemaVersion\":1,\"fsLayers\":[]}", "schema 1" },
	{ "{\"schemaVersion\":3,\"layers\":[]}", "schemaVersion" },
	{ "{\"layers\":[],\"layers\":[]}", "not JSON" },
	{ "[]", "not an object" }, { "", "not JSON" }, { "{", "not JSON" },
};
/* clang-format on */

static void manifests_are_checked(void)
{
	struct oci_manifest m;

	for (size_t i = 0; i < COUNT(manifests); i++) {
		char *exact = exact_copy(manifests[i].text, strlen(manifests[i].text));
		struct err e = { 0 };
		int got = oci_manifest_read(exact, strlen(manifests[i].text), &m, &e);

		free(exact);
		CHECK_CASE(manifests[i].text, got == (manifests[i].refused == NULL ? 0 : -1));
		if (got < 0)
			CHECK_CASE(e.msg, strstr(e.msg, manifests[i].refused) != NULL);
		else
			CHECK(m.nlayers == 1 && m.layers[0].size == 20 && m.config.size == 10);
	}
}

#define ENTRY(digest, platform)                                                              \
	"{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"" digest \
	"\",\"size\":5" platform "}"
#define PLATFORM(os, arch, more) \
	",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" more "}"

static int choose(const char *text, const char *arch, const char *variant, const char *name,
		  char *ret_first, struct err *e)
{
	const struct oci_platform want = { arch, variant };
	struct oci_descriptor d;
	enum oci_kind kind;
	char digest[OCI_DIGEST_TEXT];
	int got = oci_index_choose(text, strlen(text), &want, name, &d, &kind, e);

	if (got == 0) {
		oci_digest_text(&d.digest, digest);
		*ret_first = digest[7];
	}
	return got;
}

static void indexes_are_chosen_from(void)
{
	static const char many[] = "{\"schemaVersion\":2,\"manifests\":[" ENTRY(
		D1,
		PLATFORM("unknown", "unknown",
			 "")) "," ENTRY(D2,
					PLATFORM(
						"linux", "arm64",
						",\"variant\":\"v8\"")) "," ENTRY(D3,
										  PLATFORM(
											  "linux",
											  "amd64",
											  "")) "]}";
	static const char named[] = "{\"schemaVersion\":2,\"manifests\":[" ENTRY(
		D1, ",\"annotations\":{\"org."
		    "opencontainers.image.ref.name\":"
		    "\"a\"}") "," ENTRY(D2, ",\"annotations\":{\"org.opencontainers.image.ref."
					    "name\":\"b\"}") "]}";
	struct err e = { 0 };
	char first = 0;

	CHECK(choose(many, "amd64", "", NULL, &first, &e) == 0 && first == '3');
	CHECK(choose(many, "arm64", "v8", NULL, &first, &e) == 0 && first == '2');
	CHECK(choose(many, "arm64", "", NULL, &first, &e) == 0 && first == '2');
	CHECK(choose(many, "riscv64", "", NULL, &first, &e) == -1 && e.code == ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "linux/arm64/v8, linux/amd64") != NULL);
	CHECK(strstr(e.msg, "unknown") == NULL);
	CHECK(choose(named, "amd64", "", "b", &first, &e) == 0 && first == '2');
	CHECK(choose(named, "amd64", "", NULL, &first, &e) == 0 && first == '1');
	CHECK(choose(named, "amd64", "", "c", &first, &e) == -1);
}

static void configurations_are_read(void)
{
	static const char text[] =
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\","
		"\"diff_ids\":[\"" D1 "\",\"" D2 "\"]},\"config\":{\"Env\":[\"A=1\",\"=x\",\"B\","
		"\"PATH=/bin\",\"A=2\",\"EMPTY=\"],\"User\":\"1000:100\",\"WorkingDir\":\"app\","
		"\"Entrypoint\":[\"/run\",\"-x\"],\"Cmd\":[\"y z\"],\"Volumes\":{}}}";
	static const char env[] = "PATH=/bin\0A=2\0EMPTY=", command[] = "/run\0-x\0y z";
	static const struct oci_platform amd64 = { "amd64", "" }, arm64 = { "arm64", "v8" };
	struct oci_config c;
	struct err e = { 0 };

	CHECK(oci_config_read(text, strlen(text), &amd64, &c, &e) == 0);
	CHECK(c.nlayers == 2 && c.diff_ids[1].sha256[0] == 0x22);
	CHECK(c.env.len == sizeof(env) && memcmp(c.env.data, env, sizeof(env)) == 0);
	CHECK(c.command.len == sizeof(command) &&
	      memcmp(c.command.data, command, sizeof(command)) == 0);
	CHECK_STR(c.user, "1000:100");
	CHECK_STR(c.workdir, "/app");
	oci_config_release(&c);
	CHECK(oci_config_read(text, strlen(text), &arm64, &c, &e) == -1);
	CHECK(e.code == ERR_UNSUPPORTED && strstr(e.msg, "linux/amd64") != NULL);
	oci_config_release(&c);
}

static void faulty_configurations_are_refused(void)
{
	static const char *const cases[] = {
		"{}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\"}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"x\"]}}",
		"{\"os\":\"windows\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"" D1
		"\"]}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"" D1
		"\"]},\"config\":{\"Env\":\"A=1\"}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"" D1
		"\"]},\"config\":{\"User\":\"a\\nb\"}}",
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"" D1
		"\"]},\"config\":{\"Cmd\":[1]}}",
	};
	static const struct oci_platform amd64 = { "amd64", "" };
	struct oci_config c;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err e = { 0 };

		CHECK_CASE(cases[i],
			   oci_config_read(cases[i], strlen(cases[i]), &amd64, &c, &e) == -1);
		CHECK(e.msg[0] != '\0');
		oci_config_release(&c);
	}
}

static void archives_of_docker_are_read(void)
{
	static const char good[] = "[{\"Config\":\"c.json\",\"RepoTags\":[\"x:1\"],"
				   "\"Layers\":[\"a/layer.tar\",\"b/layer.tar\"]}]";
	static const char *const bad[] = { "[]",
					   "[{},{}]",
					   "[{\"Config\":\"c\"}]",
					   "[7]",
					   "[{\"Config\":\"c\",\"Layers\":[\"\"]}]",
					   "{}" };
	struct oci_archive a;
	struct err e = { 0 };

	CHECK(oci_archive_read(good, strlen(good), &a, &e) == 0 && a.nlayers == 2);
	CHECK_STR(a.config, "c.json");
	CHECK_STR(a.layers[1], "b/layer.tar");
	CHECK_STR(a.tag, "x:1");
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], oci_archive_read(bad[i], strlen(bad[i]), &a, &e) == -1);
}

static void wrong_digests_are_noticed(void)
{
	struct oci_digest d;
	struct err e = { 0 };

	oci_digest_of("abc", 3, &d);
	CHECK(oci_digest_check(&d, "abc", 3, "layer", &e) == 0);
	CHECK(oci_digest_check(&d, "abd", 3, "layer", &e) == -1 && e.code == ERR_INVALID);
}

/* Parsing takes time and memory by the number of values, not of bytes. */
static void many_values_are_refused(void)
{
	static char text[100000] = "{\"layers\":[0";
	struct oci_manifest m;
	struct err e;
	size_t n = strlen(text);

	while (n < sizeof(text) - 4) {
		text[n++] = ',';
		text[n++] = '0';
	}
	text[n++] = ']';
	text[n++] = '}';
	CHECK(oci_manifest_read(text, n, &m, &e) < 0 && e.code == ERR_INVALID);
	memset(text, '[', sizeof(text));
	CHECK(oci_manifest_read(text, sizeof(text), &m, &e) < 0 && e.code == ERR_INVALID);
}

/* A configuration with so many elements, and a user and a directory of so many bytes. */
static int read_sized(unsigned layers, unsigned variables, unsigned words, unsigned user,
		      unsigned dir, struct oci_config *c, struct err *e)
{
	struct buf b = BUF_INIT(OCI_JSON_MAX);
	const struct oci_platform *own = oci_platform_own();
	int rc;

	buf_printf(&b, "{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[",
		   own->architecture);
	for (unsigned i = 0; i < layers; i++)
		buf_printf(&b, "%s\"" D1 "\"", i == 0 ? "" : ",");
	buf_printf(&b, "]},\"config\":{\"Env\":[");
	for (unsigned i = 0; i < variables; i++)
		buf_printf(&b, "%s\"V%u=x\"", i == 0 ? "" : ",", i);
	buf_printf(&b, "],\"Cmd\":[");
	for (unsigned i = 0; i < words; i++)
		buf_printf(&b, "%s\"w\"", i == 0 ? "" : ",");
	buf_printf(&b, "],\"User\":\"%0*d\",\"WorkingDir\":\"%0*d\"}}", (int)user, 0, (int)dir, 0);
	rc = oci_config_read(b.data, b.len, own, c, e);
	buf_release(&b);
	return rc;
}

static void bounds_of_a_configuration(void)
{
	static const unsigned most[] = { OCI_LAYERS_MAX, OCI_ENV_MAX, OCI_COMMAND_MAX,
					 OCI_USER_MAX - 1, OCI_WORKDIR_MAX - 2 };
	struct oci_config c;
	struct err e;

	CHECK(read_sized(most[0], most[1], most[2], most[3], most[4], &c, &e) == 0);
	CHECK(c.nlayers == OCI_LAYERS_MAX && strlen(c.user) == OCI_USER_MAX - 1);
	CHECK(strlen(c.workdir) == OCI_WORKDIR_MAX - 1); /* with its slash */
	oci_config_release(&c);
	for (size_t i = 0; i < COUNT(most); i++) {
		unsigned n[COUNT(most)];

		memcpy(n, most, sizeof(n));
		n[i]++;
		CHECK(read_sized(n[0], n[1], n[2], n[3], n[4], &c, &e) < 0 &&
		      e.code == ERR_INVALID);
		oci_config_release(&c);
	}
}

/* The bytes of Env and Cmd, all of them together. */
static void bytes_of_a_configuration(void)
{
	static const struct {
		const char *member, *start;
		size_t max;
	} cases[] = { { "Env", "A=", OCI_ENV_BYTES_MAX }, { "Cmd", "", OCI_COMMAND_BYTES_MAX } };
	const struct oci_platform *own = oci_platform_own();
	struct oci_config c;
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t more = 0; more < 2; more++) {
			struct buf b = BUF_INIT(OCI_JSON_MAX);
			size_t n =
				cases[i].max - strlen(cases[i].start) - 1 + more; /* and its NUL */

			buf_printf(&b,
				   "{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":"
				   "{\"diff_ids\":[\"" D1 "\"]},\"config\":{\"%s\":[\"%s%0*d\"]}}",
				   own->architecture, cases[i].member, cases[i].start, (int)n, 0);
			CHECK_CASE(cases[i].member, (oci_config_read(b.data, b.len, own, &c, &e) ==
						     0) == (more == 0));
			oci_config_release(&c);
			buf_release(&b);
		}
}

static int read_manifest(uint64_t size, unsigned layers, struct err *e)
{
	static struct oci_manifest m;
	struct buf b = BUF_INIT(OCI_JSON_MAX);
	int rc;

	buf_printf(&b, "{\"schemaVersion\":2," CONFIG_PART ",\"layers\":[");
	for (unsigned i = 0; i < layers; i++)
		buf_printf(&b, "%s{\"mediaType\":\"" GZIP "\",\"digest\":\"" D2 "\",\"size\":%llu}",
			   i == 0 ? "" : ",", (unsigned long long)size);
	buf_printf(&b, "]}");
	rc = oci_manifest_read(b.data, b.len, &m, e);
	CHECK(rc < 0 || (m.nlayers == layers && m.layers[layers - 1].size == size));
	buf_release(&b);
	return rc;
}

static void bounds_of_a_manifest(void)
{
	struct err e;

	CHECK(read_manifest(OCI_BLOB_MAX, OCI_LAYERS_MAX, &e) == 0);
	CHECK(read_manifest(OCI_BLOB_MAX + 1, 1, &e) < 0 && strstr(e.msg, "size") != NULL);
	CHECK(read_manifest(1, OCI_LAYERS_MAX + 1, &e) < 0 && strstr(e.msg, "layers") != NULL);
}

/* An index with so many entries, of which the last fits; its type and the words of its platform
 * have so many bytes. */
static int read_index(unsigned entries, unsigned type, unsigned word, struct err *e)
{
	const struct oci_platform *own = oci_platform_own();
	struct buf b = BUF_INIT(OCI_JSON_MAX);
	struct oci_descriptor d;
	enum oci_kind kind;
	int rc;

	buf_printf(&b, "{\"schemaVersion\":2,\"manifests\":[");
	for (unsigned i = 1; i < entries; i++)
		buf_printf(&b, ENTRY(D1, PLATFORM("unknown", "unknown", "")) ",");
	buf_printf(&b,
		   "{\"mediaType\":\"manifest.v1%0*d\",\"digest\":\"" D2
		   "\",\"size\":5,\"platform\":"
		   "{\"os\":\"linux\",\"architecture\":\"%s\",\"variant\":\"%0*d\"}}]}",
		   (int)(type - strlen("manifest.v1")), 0, own->architecture, (int)word, 0);
	rc = oci_index_choose(b.data, b.len, &(struct oci_platform){ own->architecture, "" }, NULL,
			      &d, &kind, e);
	buf_release(&b);
	return rc;
}

static void bounds_of_an_index(void)
{
	static const unsigned most[] = { OCI_ENTRIES_MAX, OCI_MEDIA_TYPE_MAX,
					 OCI_PLATFORM_WORD_MAX };
	struct err e;

	CHECK(read_index(most[0], most[1], most[2], &e) == 0);
	CHECK(read_index(most[0] + 1, most[1], most[2], &e) < 0 && e.code == ERR_INVALID);
	CHECK(read_index(most[0], most[1] + 1, most[2], &e) < 0 && e.code == ERR_INVALID);
	CHECK(read_index(most[0], most[1], most[2] + 1, &e) < 0 && e.code == ERR_INVALID);
}

static int read_nested(unsigned depth, struct err *e)
{
	struct buf b = BUF_INIT(4096);
	static struct oci_manifest m;
	int rc;

	buf_printf(&b,
		   "{\"schemaVersion\":2," CONFIG_PART ",\"layers\":[" LAYER(GZIP, D2) "],\"x\":");
	for (unsigned i = 1; i < depth; i++) /* the object is one, too */
		buf_put(&b, "[", 1);
	for (unsigned i = 1; i < depth; i++)
		buf_put(&b, "]", 1);
	buf_put(&b, "}", 1);
	rc = oci_manifest_read(b.data, b.len, &m, e);
	buf_release(&b);
	return rc;
}

static void depth_is_bounded(void)
{
	struct err e;

	CHECK(read_nested(32, &e) == 0);
	CHECK(read_nested(33, &e) < 0 && strstr(e.msg, "deeper than 32") != NULL);
}

/* "host.x/path:tag" of so many bytes each, without their NULs. */
static int read_ref(unsigned host, unsigned path, unsigned tag, struct err *e)
{
	struct buf b = BUF_INIT(4096);
	char text[OCI_REF_TEXT_MAX];
	struct oci_ref r;
	char *exact;
	int rc;

	buf_printf(&b, "%0*d.x/%0*d:%0*d@" D1, (int)host - 2, 0, (int)path, 0, (int)tag, 0);
	exact = exact_copy(b.data, b.len + 1);
	exact[b.len] = '\0';
	rc = oci_ref_read(exact, &r, e);
	if (rc == 0) {
		oci_ref_text(&r, text);
		CHECK_STR(text, exact);
	}
	free(exact);
	buf_release(&b);
	return rc;
}

static void bounds_of_a_reference(void)
{
	static const unsigned most[] = { OCI_REF_HOST_MAX - 1, OCI_REF_PATH_MAX - 1,
					 OCI_REF_TAG_MAX - 1 };
	struct err e;

	CHECK(read_ref(most[0], most[1], most[2], &e) == 0);
	CHECK(read_ref(most[0] + 1, most[1], most[2], &e) < 0);
	CHECK(read_ref(most[0], most[1] + 1, most[2], &e) < 0);
	CHECK(read_ref(most[0], most[1], most[2] + 1, &e) < 0);
}

static void bounds_of_registries_of_aws(void)
{
	char host[256];
	struct oci_ecr ecr;

	for (int more = 0; more < 2; more++) {
		(void)snprintf(host, sizeof(host),
			       "123456789012.dkr.ecr-fips.%0*d.amazonaws.com.cn",
			       OCI_ECR_REGION_MAX - 1 + more, 0);
		CHECK(oci_ecr_read(host, &ecr) == (more == 0));
		(void)snprintf(host, sizeof(host), "ecr-fips.%0*d.amazonaws.com.cn",
			       OCI_ECR_REGION_MAX - 1, 0);
		CHECK(more == 1 || strcmp(ecr.api, host) == 0); /* the longest */
	}
}

static void bounds_of_archives_of_docker(void)
{
	struct oci_archive a;
	char text[1024];
	struct err e;

	for (int k = 0; k < 4; k++) { /* none too long, then Config, a layer, the tag */
		int n = OCI_ARCHIVE_NAME_MAX - 1;

		(void)snprintf(
			text, sizeof(text),
			"[{\"Config\":\"%0*d\",\"RepoTags\":[\"%0*d\"],\"Layers\":[\"%0*d\"]}]",
			n + (k == 1), 0, n + (k == 3), 0, n + (k == 2), 0);
		CHECK((oci_archive_read(text, strlen(text), &a, &e) == 0) == (k == 0 || k == 3));
		if (k == 0 || k == 3)
			CHECK(strlen(a.config) == (size_t)n && strlen(a.layers[0]) == (size_t)n &&
			      strlen(a.tag) == (k == 0 ? (size_t)n : 0));
	}
}

static bool opens; /* the JSON library wanted a file */

/* In the place of libc's, for the library: as in a confined process. */
int open(const char *path, int flags, ...);
int open(const char *path, int flags, ...)
{
	opens = true;
	errno = ENOSYS;
	return -1;
}

/* Without a seed of its own the library looks for one with the first object. Each test is a process
 * of its own. */
static void tables_are_seeded(void)
{
	OWN_OCI_JSON *root;
	struct err e;

	root = oci_json_parse("{}", 2, false, "a document", &e);
	CHECK(root != NULL && !opens);
}

TEST_MAIN({ "tables are seeded", tables_are_seeded },
	  { "bounds of a configuration", bounds_of_a_configuration },
	  { "bytes of a configuration", bytes_of_a_configuration },
	  { "bounds of a manifest", bounds_of_a_manifest },
	  { "bounds of an index", bounds_of_an_index }, { "depth is bounded", depth_is_bounded },
	  { "bounds of a reference", bounds_of_a_reference },
	  { "bounds of registries of AWS", bounds_of_registries_of_aws },
	  { "bounds of archives of docker", bounds_of_archives_of_docker },
	  { "many values are refused", many_values_are_refused }, { "references", references },
	  { "registries of AWS", registries_of_aws }, { "whiteouts", whiteouts },
	  { "manifests are checked", manifests_are_checked },
	  { "indexes are chosen from", indexes_are_chosen_from },
	  { "configurations are read", configurations_are_read },
	  { "faulty configurations are refused", faulty_configurations_are_refused },
	  { "archives of docker are read", archives_of_docker_are_read },
	  { "wrong digests are noticed", wrong_digests_are_noticed })
