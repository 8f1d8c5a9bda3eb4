/* recognise_tool.c - what the package gate makes of requests, for test_routers.py.
 *
 *	recognise_tool POLICY < REQUESTS
 *
 * POLICY is a network policy; its rules are taken to open every host. A request is a line "METHOD
 * HOST TARGET", with the host as a Host header of a request over TLS has it; the answer to it is a
 * line "VERDICT\tTARGET\tWORDS", where TARGET is what would be sent to the server:
 *	bad	not well-formed: refused before it is a request
 *	refuse	WORDS: the reason
 *	allow	WORDS: kind and name of the package
 *	rules	not about packages: the rules decide */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/flow/endpoint.h"
#include "lib/policy/package_recognise.h"
#include "lib/policy/path.h"
#include "lib/policy/policy.h"

#define NOW_MS 1800000000000ULL

static struct http1_span span(const char *text, size_t n)
{
	return (struct http1_span){ text, n };
}

static bool is_target(const char *text)
{
	for (const char *p = text; *p != '\0'; p++)
		if (*p <= ' ' || *p >= 0x7f || *p == '#')
			return false;
	return text[0] == '/';
}

static void print(const char *verdict, const struct package_target *t, const char *words)
{
	(void)printf("%s\t%s%s%s\t%s\n", verdict, t->path, t->query == NULL ? "" : "?",
		     t->query == NULL ? "" : t->query, words);
}

static void judge(const struct packages_policy *all, const struct package_target *t)
{
	struct package_question q = { .now_ms = NOW_MS };
	struct package_found found;
	struct package_answer a;
	char words[PACKAGE_NAME_MAX + 32];

	if (!package_recognise(all, t, &found)) {
		print("rules", t, "");
		return;
	}
	q.registry = found.registry;
	q.request = &found.request;
	q.path = found.path;
	q.prefix = found.prefix;
	q.git_starts = found.git_starts;
	q.direct = found.has_direct ? &found.direct : NULL;
	q.is_loose = found.is_loose;
	package_judge(all, &q, &a);
	(void)snprintf(words, sizeof(words), "%s %s", package_kind_name(found.request.kind),
		       found.request.name);
	if (a.verdict == PACKAGE_REFUSE)
		print("refuse", t, a.reason);
	else
		print(a.verdict == PACKAGE_BY_RULES ? "rules" : "allow", t, words);
}

/* Cuts its arguments out of the line. */
static void answer(const struct packages_policy *all, char *line)
{
	static char path[PATH_NORMAL_MAX], query[PATH_NORMAL_MAX];
	char *save = NULL, *method = strtok_r(line, " ", &save), *host = strtok_r(NULL, " ", &save);
	char *target = strtok_r(NULL, "\n", &save), *mark;
	struct package_target t = { .host = "", .method = method, .path = "" };
	struct endpoint to = { .port = 0 };
	const char *why = "malformed";

	mark = target == NULL ? NULL : strchr(target, '?');
	if (target == NULL || !is_target(target) ||
	    endpoint_read(NULL, span(host, strlen(host)), 443, &to, &why) < 0 ||
	    path_normal(span(target, mark == NULL ? strlen(target) : (size_t)(mark - target)), path,
			sizeof(path), &why) < 0 ||
	    (mark != NULL &&
	     path_normal_query(span(mark + 1, strlen(mark + 1)), query, sizeof(query), &why) < 0)) {
		print("bad", &t, why);
		return;
	}
	t.host = to.host;
	t.port = to.port;
	t.path = path;
	t.query = mark == NULL ? NULL : query;
	judge(all, &t);
}

int main(int argc, char **argv)
{
	static char line[16384];
	const char *const layers[POLICY_LAYERS] = { NULL, NULL, argc == 2 ? argv[1] : NULL };
	struct policy *p = NULL;
	char *merged = NULL;
	struct err e = { 0 };

	if (argc != 2 || policy_merge(layers, &merged, &e) < 0 ||
	    policy_read(merged, strlen(merged), POLICY_LAYERS, &p, &e) < 0) {
		(void)fprintf(stderr, "recognise_tool: %s\n", argc == 2 ? e.msg : "POLICY");
		free(merged);
		return 2;
	}
	free(merged);
	while (fgets(line, sizeof(line), stdin) != NULL)
		answer(policy_packages(p), line);
	policy_free(p);
	return 0;
}
