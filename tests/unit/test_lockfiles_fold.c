/* Lockfiles in a body become pins before it is parsed; anything else stays as it is. */
#include "test.h"

#include "lib/policy/lockfiles_fold.h"

#define FILE_OF(text) "{\"name\": \"requirements.txt\", \"text\": \"" text "\"}"

/* want NULL: the body is left as it is. */
static void check(const char *body, const char *member, const char *want)
{
	struct err e = { 0 };
	char *got = NULL;
	size_t n = 0;

	if (lockfiles_fold(body, strlen(body), member, &got, &n, &e) < 0) {
		CHECK(got == NULL);
		CHECK_STR(e.msg, want);
		return;
	}
	CHECK((got == NULL) == (want == NULL));
	if (want != NULL) {
		CHECK_STR(got, want);
		CHECK(n == strlen(want));
	}
	lockfiles_fold_free(&got);
	CHECK(got == NULL);
}

static void folds(void)
{
	check("{\"packages\": {\"lockfiles\": [" FILE_OF(
		      "a==1\\nb==2\\u000a") "], \"x\": 1}, \"y\": [2]}",
	      NULL,
	      "{\"packages\": {\"lockfiles\": {\"pypi:a\":[\"1\"],\"pypi:b\":[\"2\"]}, \"x\": 1}, "
	      "\"y\": [2]}");
	check("{\"network\": {\"packages\": {\"lockfiles\":[" FILE_OF("a==1") "," FILE_OF(
		      "a==2") "]}}}",
	      "network",
	      "{\"network\": {\"packages\": {\"lockfiles\":{\"pypi:a\":[\"1\",\"2\"]}}}}");
	check("{\"packages\": {\"lockfiles\": []}}", NULL, "{\"packages\": {\"lockfiles\": {}}}");
}

static void leaves(void)
{
	check("", NULL, NULL);
	check("{}", NULL, NULL);
	check("{\"lockfiles\": [1]}", NULL, NULL);
	check("{\"packages\": {\"lockfiles\": [1]}}", "network", NULL);
	check("{\"packages\": {\"lockfiles\": 1}}", NULL, NULL);
	check("{\"packages\": {\"lockfiles\": [}}", NULL, NULL);
	check("[\"lockfiles\"]", NULL, NULL);
	check("\"lockfiles\"", "network", NULL);
}

static void refuses(void)
{
	const char *no = "packages.lockfiles[0]: must have a name and a text, and nothing else";

	check("{\"packages\": {\"lockfiles\": [1]}}", NULL, no);
	check("{\"packages\": {\"lockfiles\": [{}]}}", NULL, no);
	check("{\"packages\": {\"lockfiles\": [{\"name\": \"go.sum\"}]}}", NULL, no);
	check("{\"packages\": {\"lockfiles\": [{\"name\": 1, \"text\": \"\"}]}}", NULL, no);
	check("{\"packages\": {\"lockfiles\": [{\"name\": \"go.sum\\u0000\", \"text\": \"\"}]}}",
	      NULL, no);
	check("{\"packages\": {\"lockfiles\": [{\"name\": \"go.sum\", \"text\": \"\", \"x\": 1}]}}",
	      NULL, no);
	check("{\"network\": {\"packages\": {\"lockfiles\": [" FILE_OF("") ", " FILE_OF(
		      "a>1") "]}}}",
	      "network",
	      "network: packages.lockfiles[1] (requirements.txt): requirements.txt: line 1: only "
	      "an exact "
	      "version (NAME==VERSION) is a pin");
}

/* A long body without lockfiles is refused as it is everywhere else. */
static void bounds(void)
{
	static char body[LOCKFILES_REST_MAX + 100];
	const char *no = "the body has more than 1048576 bytes besides lockfiles or in their pins";

	memset(body, ' ', sizeof(body) - 1);
	memcpy(body, "{}", 2);
	check(body, NULL, no);
	memcpy(body, "{\"packages\": {\"lockfiles\": []}}", 31);
	check(body, NULL, no);
	body[LOCKFILES_REST_MAX] = '\0';
	memcpy(body, "{\"packages\": {\"lockfiles\": 11}}", 31);
	check(body, NULL, NULL);
}

TEST_MAIN({ "lists of files become pins", folds }, { "what is not one is left", leaves },
	  { "mistakes are refused", refuses }, { "bounds", bounds })
