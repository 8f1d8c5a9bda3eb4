/* Goal: recipes of builds and names of templates are read as E2B's clients mean them, and what a
 * step leaves for the next one follows the rules of a Dockerfile. */
#include "front/web/json_members.h"
#include "daemon/images/recipe.h"
#include "front/web/spec_recipe.h"
#include "daemon/images/template_ref.h"

#include "test.h"

#include <time.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define ECR "123456789012.dkr.ecr.eu-west-1.amazonaws.com/a:1"
#define KEY "\"awsAccessKeyId\":\"A\",\"awsSecretAccessKey\":\"S\""
#define AWS(image, rest) \
	"{\"fromImage\":\"" image "\",\"fromImageRegistry\":{\"type\":\"aws\"," rest "}}"

static int read_text(const char *text, struct recipe *r, struct err *e)
{
	return spec_recipe_read(text, strlen(text), r, e);
}

static void a_recipe_is_read(void)
{
	static const char text[] =
		"{\"fromImage\":\"debian:13\",\"startCmd\":\"serve\",\"readyCmd\":\"true\","
		"\"force\":true,\"x\":1,\"steps\":[{\"type\":\"RUN\",\"args\":[\"id\",\"root\"],"
		"\"force\":true},{\"type\":\"ADD\",\"args\":[\"a/*\",\"/b\",\"\",\"0755\"],"
		"\"filesHash\":\"" HASH
		"\",\"gzip\":false},{\"type\":\"ARG\",\"args\":[\"A\",\"1\"]}]}";
	struct recipe r;
	struct err e;

	CHECK(read_text(text, &r, &e) == 0);
	CHECK_STR(r.image, "debian:13");
	CHECK(r.template == NULL && r.force && r.nsteps == 3);
	CHECK_STR(r.start, "serve");
	CHECK(r.steps[0].type == RECIPE_RUN && r.steps[0].force && r.steps[0].argc == 2);
	CHECK(r.steps[1].type == RECIPE_COPY && !r.steps[1].force);
	CHECK_STR(r.steps[1].hash, HASH);
	CHECK(r.steps[2].type == RECIPE_ENV);
	recipe_release(&r);
}

static void credentials_of_aws_are_read(void)
{
	struct recipe r;
	struct err e;

	CHECK(read_text(AWS(ECR, "\"awsRegion\":\"eu-west-1\"," KEY), &r, &e) == 0);
	CHECK_STR(r.registry_user, "A");
	CHECK_STR(r.registry_password, "S");
	CHECK_STR(r.registry_region, "eu-west-1");
	recipe_release(&r);
}

static void bad_recipes_are_refused(void)
{
	static const struct {
		const char *text, *why;
	} table[] = {
		{ "{}", "exactly one of" },
		{ "{\"fromImage\":\"a\",\"fromTemplate\":\"b\"}", "exactly one of" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"CMD\",\"args\":[]}]}", "type" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[]}]}", "missing" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[1]}]}", "args" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"A\"]}]}",
		  "pairs" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"1\",\"\"]}]}",
		  "bad name" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}]}",
		  "filesHash" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],"
		  "\"filesHash\":\"xyz\"}]}",
		  "hex" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"../a\",\"b\"],"
		  "\"filesHash\":\"" HASH "\"}]}",
		  "'..'" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\","
		  "\"0999\"],\"filesHash\":\"" HASH "\"}]}",
		  "bad mode" },
		{ "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"USER\",\"args\":[\"a;b\"]}]}",
		  "bad name" },
		{ AWS("a", "\"awsRegion\":\"eu-west-1\"," KEY), "ACCOUNT.dkr.ecr.REGION" },
		{ AWS(ECR, "\"awsRegion\":\"us-east-1\"," KEY), "the registry is in eu-west-1" },
		{ AWS(ECR, "\"awsRegion\":\"\"," KEY), "awsRegion" },
		{ AWS(ECR, KEY), "awsRegion" },
		{ AWS(ECR, "\"awsRegion\":\"eu-west-1\",\"awsAccessKeyId\":\"A\""),
		  "awsSecretAccessKey" },
		{ "{\"fromImage\":\"a\",\"fromImageRegistry\":{\"type\":\"azure\"}}",
		  "registry, aws" },
	};
	struct recipe r;
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		CHECK(read_text(table[i].text, &r, &e) < 0);
		CHECK(strstr(e.msg, table[i].why) != NULL);
		recipe_release(&r);
	}
}

/* Each reference looks through all variables. */
static void the_environment_is_bounded(void)
{
	char text[2 * RECIPE_REFERENCES_MAX + 3] = "", name[16];
	struct recipe_state s;
	struct err e;

	recipe_state_init(&s);
	for (unsigned i = 0; i < RECIPE_VARIABLES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "V%u", i);
		CHECK(recipe_state_set_env(&s, name, "x", &e) == 0);
	}
	CHECK(recipe_state_set_env(&s, "V0", "again", &e) == 0);
	CHECK(recipe_state_set_env(&s, "ONE_MORE", "x", &e) < 0 && e.code == ERR_LIMIT);
	for (unsigned i = 0; i < RECIPE_REFERENCES_MAX; i++)
		memcpy(text + 2 * i, "$Q", 2);
	CHECK(recipe_state_set_env(&s, "V1", text, &e) == 0);
	CHECK_STR(recipe_state_env(&s, "V1", 2), "");
	memcpy(text + 2 * RECIPE_REFERENCES_MAX, "$Q", 2);
	CHECK(recipe_state_set_env(&s, "V1", text, &e) < 0 && e.code == ERR_LIMIT);
	CHECK(recipe_state_set(&s, "root", "", s.env.data, s.env.len, &e) == 0 &&
	      s.variables == RECIPE_VARIABLES_MAX);
	recipe_state_release(&s);
}

/* The environment of a base counts, too. */
static void variables_of_a_base_are_bounded(void)
{
	static char env[2 * (RECIPE_VARIABLES_MAX + 1)];
	struct recipe_state s;
	struct err e;

	for (size_t i = 0; i < sizeof(env); i += 2)
		env[i] = '=';
	recipe_state_init(&s);
	CHECK(recipe_state_set(&s, "root", "", env, sizeof(env) - 2, &e) == 0);
	CHECK(recipe_state_set(&s, "root", "", env, sizeof(env), &e) < 0 && e.code == ERR_LIMIT);
	recipe_state_release(&s);
}

static void variables_are_expanded(void)
{
	static const struct {
		const char *value, *want;
	} table[] = {
		{ "plain", "plain" },	{ "$A", "one" },     { "${A}x", "onex" },
		{ "$Ax", "" },		{ "$A/$B", "one/" }, { "${B:-two}", "two" },
		{ "${A:-two}", "one" }, { "\\$A", "$A" },    { "$(id)", "$(id)" },
		{ "`id`", "`id`" },	{ "${A", "${A" },    { "$", "$" },
		{ "\\x", "\\x" },	{ "a$1b", "a$1b" },
	};
	struct recipe_state s;
	struct err e;

	recipe_state_init(&s);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		CHECK(recipe_state_set_env(&s, "A", "one", &e) == 0);
		CHECK(recipe_state_set_env(&s, "C", table[i].value, &e) == 0);
		CHECK_STR(recipe_state_env(&s, "C", 1), table[i].want);
	}
	CHECK(recipe_state_set_env(&s, "A", "$A:two", &e) == 0);
	CHECK_STR(recipe_state_env(&s, "A", 1), "one:two");
	CHECK(recipe_state_env(&s, "B", 1) == NULL);
	recipe_state_release(&s);
}

static void paths_are_resolved_as_text(void)
{
	static const struct {
		const char *workdir, *path, *want;
	} table[] = {
		{ "", "a", "/home/user/a" },   { "/w", "a/", "/w/a/" },
		{ "/w", "/x//y/./", "/x/y/" }, { "/w/v", "..", "/w" },
		{ "/w", "../../..", "/" },     { "/w", ".", "/w" },
		{ "/w", "./", "/w/" },
	};
	char got[RECIPE_PATH_MAX];
	struct recipe_state s;
	struct err e;

	recipe_state_init(&s);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		CHECK(recipe_state_set(&s, "user", table[i].workdir, "", 0, &e) == 0);
		CHECK(recipe_state_path(&s, table[i].path, "/home/user", got, &e) == 0);
		CHECK_STR(got, table[i].want);
	}
	recipe_state_release(&s);
}

static void a_copy_names_its_entry(void)
{
	static const struct {
		const char *source, *want;
	} table[] = {
		{ "folder/*", "folder" }, { "a/b.txt", "a/b.txt" }, { "*.txt", "" }, { ".", "" },
		{ "./a/", "a" },	  { "a/b?/c", "a" },	    { "/a", "a" }
	};
	char got[RECIPE_PATH_MAX];
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		CHECK(recipe_copy_entry(table[i].source, got, &e) == 0);
		CHECK_STR(got, table[i].want);
	}
}

static void names_of_templates(void)
{
	static const struct {
		const char *text, *space, *name, *tag; /* name NULL: refused */
	} table[] = {
		{ "x", "", "x", "" },
		{ " My-App ", "", "my-app", "" },
		{ "x:V1.2", "", "x", "v1.2" },
		{ "team/x:y", "team", "x", "y" },
		{ "", "", NULL, "" },
		{ ":x", "", NULL, "" },
		{ "x:", "", NULL, "" },
		{ "a b", "", NULL, "" },
		{ "a/b/c", "", NULL, "" },
		{ "x.y", "", NULL, "" },
		{ "/x", "", NULL, "" },
		{ "x:a:b", "", NULL, "" },
		{ "x:default", "", "x", "" },
		{ "x:0123456789012345678901234567890123456789012345678901234567890123", "", NULL,
		  "" },
		{ "x:0123abcd-0000-0000-0000-0123456789ab", "", NULL, "" },
	};
	struct template_name r;
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].name == NULL) {
			CHECK(template_ref_read(table[i].text, &r, &e) < 0);
			CHECK(strncmp(e.msg, "Invalid ", 8) == 0);
			continue;
		}
		CHECK(template_ref_read(table[i].text, &r, &e) == 0);
		CHECK_STR(r.space, table[i].space);
		CHECK_STR(r.name, table[i].name);
		CHECK_STR(r.tag, table[i].tag);
	}
}

/* A step with values that have as many references as they may, to the last of as many variables. */
static void references_do_not_go_over_all_variables(void)
{
	static char value[2 * RECIPE_REFERENCES_MAX + 1], long_one[111];
	struct recipe_state s;
	struct err e;
	char name[16];
	clock_t began;

	for (size_t i = 0; i < RECIPE_REFERENCES_MAX; i++)
		memcpy(value + 2 * i, "$z", 2);
	memset(long_one, 'x', sizeof(long_one) - 1);
	recipe_state_init(&s);
	for (unsigned i = 0; i < RECIPE_VARIABLES_MAX - 1; i++) {
		(void)snprintf(name, sizeof(name), "v%u", i);
		CHECK(recipe_state_set_env(&s, name, long_one, &e) == 0);
	}
	CHECK(recipe_state_set_env(&s, "z", "y", &e) == 0);
	began = clock();
	for (unsigned i = 0; i < RECIPE_ARGS_MAX / 2; i++) {
		(void)snprintf(name, sizeof(name), "v%u", i);
		CHECK(recipe_state_set_env(&s, name, value, &e) == 0);
		CHECK(recipe_state_env(&s, name, strlen(name))[RECIPE_REFERENCES_MAX - 1] == 'y');
	}
	began = clock() - began;
	printf("# %d ms\n", (int)(began * 1000 / CLOCKS_PER_SEC));
	CHECK(began < CLOCKS_PER_SEC / 4);
	recipe_state_release(&s);
}

TEST_MAIN({ "a recipe is read", a_recipe_is_read },
	  { "bad recipes are refused", bad_recipes_are_refused },
	  { "credentials of AWS are read", credentials_of_aws_are_read },
	  { "variables are expanded", variables_are_expanded },
	  { "references do not go over all variables", references_do_not_go_over_all_variables },
	  { "the environment is bounded", the_environment_is_bounded },
	  { "variables of a base are bounded", variables_of_a_base_are_bounded },
	  { "paths are resolved as text", paths_are_resolved_as_text },
	  { "a COPY names its entry", a_copy_names_its_entry },
	  { "names of templates", names_of_templates })
