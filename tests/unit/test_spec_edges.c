/* Goal: each bound of what clients send of sessions, executions, templates, secrets, recipes and
 * keys is taken at its value, and refused one beyond with an error that names it. */
#include <jansson.h>

#include "edge.h"
#include "front/web/json_members.h"
#include "daemon/images/recipe.h"
#include "front/rest/api_tenants.h"
#include "front/web/spec_exec.h"
#include "front/web/spec_recipe.h"
#include "front/web/spec_secret.h"
#include "front/web/spec_session.h"
#include "front/rest/spec_template.h"

static bool session(const char *text, size_t len, struct err *e)
{
	struct spec_session s;
	int done = spec_session_read(text, len, &s, e);

	spec_session_release(&s);
	return done == 0;
}

static bool execution(const char *text, size_t len, struct err *e)
{
	struct spec_exec s;
	int done = spec_exec_read(text, len, &s, e);

	spec_exec_release(&s);
	return done == 0;
}

static bool size(const char *text, size_t len, struct err *e)
{
	uint16_t rows, cols;

	return spec_exec_size(text, len, &rows, &cols, e) == 0;
}

static bool template(const char *text, size_t len, struct err *e)
{
	struct spec_template s;
	int done = spec_template_read(text, len, "/var/templates", &s, e);

	spec_template_release(&s);
	return done == 0;
}

static bool secret(const char *text, size_t len, struct err *e)
{
	struct spec_secret s;
	int done = spec_secret_read(text, len, false, &s, e);

	spec_secret_release(&s);
	return done == 0;
}

static bool recipe(const char *text, size_t len, struct err *e)
{
	struct recipe r;
	int done = spec_recipe_read(text, len, &r, e);

	recipe_release(&r);
	return done == 0;
}

static bool key(const char *text, size_t len, struct err *e)
{
	json_t *root = json_members_parse(text, len, e);
	struct store_allow allow;
	struct json_members m;
	bool done;

	CHECK(root != NULL);
	json_members_begin(&m, root, "", e);
	spec_allow_read(&m, "allow", true, &allow);
	done = json_members_end(&m) == 0;
	json_decref(root);
	return done;
}

#define WORDS "abcdefghijklmnopqrstuvwxyz"
#define ROWS "{\"rows\":"

static void executions(void)
{
	static const struct edge rows[] = {
		{ execution, "{\"argv\":[\"/bin/true\",", "\"x\"", 4095, "]}",
		  "argv: has too many elements: at most 4096" },
		{ execution, "{\"command\":\"true\",\"env\":{", "\"V%d\":\"x\"", 256, "}}",
		  "env: has too many members: at most 256" },
		{ execution, "{\"command\":\"true\",\"user\":\"", "u", 63, "\"}",
		  "user: is too long: at most 63 bytes" },
		{ execution, "{\"code\":\"1\",\"context\":\"", "c", 63, "\"}",
		  "context: is too long: at most 63 bytes" },
		{ execution, "{\"command\":\"true\",\"cwd\":\"/", "d", 4094, "\"}",
		  "cwd: is too long: at most 4095 bytes" },
		{ execution, "{\"command\":\"", "c", JSON_MEMBERS_BODY_MAX - 14, "\"}",
		  "the body is too large" },
	};
	static const struct {
		const char *text;
		bool taken;
	} sizes[] = { { ROWS "4096,\"cols\":4096}", true },  { ROWS "4097,\"cols\":4096}", false },
		      { ROWS "4096,\"cols\":4097}", false }, { ROWS "1,\"cols\":1}", true },
		      { ROWS "0,\"cols\":1}", false },	     { ROWS "1,\"cols\":0}", false } };
	struct err e;

	edge_try(rows, COUNT(rows));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		CHECK_CASE(sizes[i].text,
			   size(sizes[i].text, strlen(sizes[i].text), &e) == sizes[i].taken);
		if (!sizes[i].taken)
			CHECK_HAS(sizes[i].text, e.msg, "must be a whole number from 1 to 4096");
	}
}

/* The longest arguments that a body can have, with all names of variables twice. */
static void strings_of_an_execution(void)
{
	struct edge_text t = { 0 };
	struct spec_exec s;
	struct err e;

	edge_put(&t, "{\"env\":{");
	for (unsigned i = 0; i < 256; i++) {
		char name[257], number[8];

		memset(name, 'n', sizeof(name) - 1);
		name[256] = '\0';
		(void)snprintf(number, sizeof(number), "N%03u", i);
		memcpy(name, number, 4);
		edge_put(&t, i > 0 ? ",\"" : "\"");
		edge_put(&t, name);
		edge_put(&t, "\":\"\"");
	}
	edge_put(&t, "},\"code\":\"1\",\"cwd\":\"/\"");
	edge_put_times(&t, " ", JSON_MEMBERS_BODY_MAX - 1 - t.len);
	edge_put(&t, "}");
	CHECK(t.len == JSON_MEMBERS_BODY_MAX);
	CHECK(spec_exec_read(t.p, t.len, &s, &e) == 0);
	CHECK(s.spec.envc == 256 && s.spec.argc == 2 + 2 + 2 + 512);
	spec_exec_release(&s);
	free(t.p);
}

static void sessions(void)
{
	static const struct edge rows[] = {
		{ session, "{\"env\":{", "\"V%d\":\"x\"", SPEC_ENV_MAX, "}}",
		  "env: has too many members: at most 256" },
		/* With its name, '=' and NUL. */
		{ session, "{\"env\":{\"V\":\"", "v", (256 << 10) - 3, "\"}}",
		  "env: is too large: at most 262144 bytes" },
		{ session, "{\"rules\":{\"writable\":[\"/", "p", 4094, "\"]}}",
		  "rules.writable: must be absolute paths of at most 4095 bytes" },
		{ session, "{\"rules\":{\"exportable\":[\"/", "p", 4094, "\"]}}",
		  "rules.exportable: must be absolute paths of at most 4095 bytes" },
		/* All together, with the colon. */
		{ session, "{\"rules\":{\"writable\":[\"/a\",\"/", "p", 4092, "\"]}}",
		  "rules.writable: is too large: at most 4096 bytes" },
		{ session, "{\"metadata\":{", "\"m%d\":\"x\"", SPEC_METADATA_MAX, "}}",
		  "metadata: has too many members: at most 64" },
		{ session, "{\"metadata\":{\"m\":\"", "v", SPEC_METADATA_TEXT_MAX - 8, "\"}}",
		  "metadata: is too large: at most 16384 bytes" },
		{ session, "{\"mounts\":[", "{\"source\":\"/s\",\"target\":\"/t%d\"}",
		  CELL_MOUNTS_MAX, "]}", "mounts: has too many elements: at most 8" },
		{ session, "{\"mounts\":[{\"source\":\"/", "s", CELL_PATH_MAX - 2,
		  "\",\"target\":\"/t\"}]}", "mounts.source: is too long: at most 255 bytes" },
		{ session, "{\"mounts\":[{\"source\":\"/s\",\"target\":\"/", "t", CELL_PATH_MAX - 2,
		  "\"}]}", "mounts.target: is too long: at most 255 bytes" },
		{ session, "{\"ports\":[", "%d", SESSION_PORTS_MAX, "]}",
		  "ports: has too many elements" },
		{ session, "{\"secrets\":[", "{\"name\":\"S\",\"env\":\"V%d\"}", SECRET_LINES_MAX,
		  "]}", "secrets: has too many elements: at most 32" },
	};

	edge_try(rows, COUNT(rows));
}

#define LAYERS "{\"name\":\"x\",\"root\":{\"layers\":["
#define LAYER LAYERS "\"a\"]},"

static void templates(void)
{
	static const struct edge rows[] = {
		{ template, LAYERS, "\"l%d\"", 64, "]}}",
		  "root.layers: has too many elements: at most 64" },
		{ template, LAYERS "\"", "l", 65536, "\"]}}",
		  "root.layers: is too large: at most 65536 bytes" },
		{ template, LAYER "\"user\":\"", "u", 63, "\"}",
		  "user: is too long: at most 63 bytes" },
		{ template, LAYER "\"env\":{\"V\":\"", "v", (256 << 10) - 3, "\"}}",
		  "env: is too large: at most 262144 bytes" },
	};
	static const struct edge levels[] = {
		{ template, LAYER "\"level\":\"", "l", 64, "\"}",
		  "level: is too long: at most 63 bytes" },
	};
	struct edge_text t = { 0 };
	struct err e;

	edge_try(rows, COUNT(rows));
	/* No level has so long a name. */
	edge_write(&t, &levels[0], 63);
	CHECK(!edge_taken(template, &t, &e) && strstr(e.msg, "level: must be") != NULL);
	edge_write(&t, &levels[0], 64);
	edge_expect(template, &t, true, levels[0].words);
	free(t.p);
}

static void secrets(void)
{
	static const struct edge rows[] = {
		{ secret, "{\"hosts\":[", "\"h%d.test\"", 64, "]}",
		  "hosts: has too many elements: at most 64" },
		{ secret, "{\"methods\":[", "\"GET\"", 64, "]}",
		  "methods: has too many elements: at most 64" },
		{ secret, "{\"methods\":[\"", "M", 31, "\"]}", "methods: must be methods" },
		{ secret, "{\"paths\":[", "\"/p%d\"", 64, "]}",
		  "paths: has too many elements: at most 64" },
		{ secret, "{\"in\":[", "\"body:f%d\"", 64, "]}",
		  "in: has too many elements: at most 64" },
		{ secret, "{\"in\":[\"header:", "h", 128, "\"]}", "in: must contain only" },
		{ secret, "{\"in\":[\"body:", "f", 128, "\"]}", "in: must contain only" },
		{ secret, "{\"name\":\"", "n", 255, "\"}", "name: is too long: at most 255 bytes" },
		{ secret, "{\"metadata\":{", "\"m%d\":\"x\"", 64, "}}",
		  "metadata: has too many members: at most 64" },
	};

	edge_try(rows, COUNT(rows));
}

#define AWS                                                                                 \
	"{\"fromImage\":\"123456789012.dkr.ecr.eu-west-1.amazonaws.com/a:1\",\"steps\":[]," \
	"\"fromImageRegistry\":{\"type\":\"aws\",\"awsRegion\":\"eu-west-1\","

static void recipes(void)
{
	static const struct edge rows[] = {
		{ recipe, AWS "\"awsSecretAccessKey\":\"s\",\"awsAccessKeyId\":\"", "k", 128,
		  "\"}}", "fromImageRegistry.awsAccessKeyId: is too long: at most 128 bytes" },
		{ recipe, AWS "\"awsAccessKeyId\":\"k\",\"awsSecretAccessKey\":\"", "s", 128,
		  "\"}}", "fromImageRegistry.awsSecretAccessKey: is too long: at most 128 bytes" },
		{ recipe,
		  "{\"fromImage\":\"a/b\",\"steps\":[],\"fromImageRegistry\":{\"type\":"
		  "\"registry\",\"username\":\"u\",\"password\":\"",
		  "p", RECIPE_TEXT_MAX, "\"}}",
		  "fromImageRegistry.password: is too long: at most 65536 bytes" },
	};

	edge_try(rows, COUNT(rows));
}

static void keys(void)
{
	static const struct edge rows[] = {
		{ key, "{\"allow\":{\"templates\":[", "\"t\"", 64, "]}}",
		  "allow.templates: has too many elements: at most 64" },
		{ key, "{\"allow\":{\"templates\":[\"", "t", STORE_ALLOW_LIST_MAX - 1, "\"]}}",
		  "allow.templates: is too large: at most" },
	};
	static const char *const names[] = { "sessions", "creates_per_minute" };
	char text[96];
	struct err e;

	edge_try(rows, COUNT(rows));
	for (size_t i = 0; i < COUNT(names); i++)
		for (unsigned more = 0; more < 2; more++) {
			(void)snprintf(text, sizeof(text), "{\"allow\":{\"%s\":%u}}", names[i],
				       1000000 + more);
			CHECK_CASE(text, key(text, strlen(text), &e) == (more == 0));
			CHECK(more == 0 || strstr(e.msg, "from 0 to 1000000") != NULL);
		}
}

TEST_MAIN({ "executions", executions }, { "strings of an execution", strings_of_an_execution },
	  { "sessions", sessions }, { "templates", templates }, { "secrets", secrets },
	  { "recipes", recipes }, { "keys", keys })
