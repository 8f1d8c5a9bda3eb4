/* package_policy.h - policies of packages out of texts, and questions to them, for unit tests. */
#pragma once

#include "policy_text.h"

#include "lib/packages/package_facts.h"
#include "lib/policy/package_judge.h"

#define NOW 1800000000000ULL
#define HOUR 3600000ULL
#define DAY (24 * HOUR)
#define SHA_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* Up to three members become the layers of one policy; NULL: the layer has none. */
static inline struct policy *try_layers(const char *node, const char *tenant, const char *session,
					struct err *e)
{
	const char *const members[POLICY_LAYERS] = { node, tenant, session };
	static char texts[POLICY_LAYERS][65536];
	const char *layers[POLICY_LAYERS] = { NULL };

	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		if (members[i] == NULL)
			continue;
		(void)snprintf(texts[i], sizeof(texts[i]), "{\"version\":1,\"packages\":%s}",
			       members[i]);
		layers[i] = texts[i];
	}
	return policy_of_layers(layers[0], layers[1], layers[2], e);
}

static inline struct policy *make(const char *node, const char *tenant, const char *session)
{
	struct err e = { 0 };
	struct policy *p = try_layers(node, tenant, session, &e);

	if (p == NULL)
		printf("# %s\n", e.msg);
	CHECK(p != NULL);
	return p;
}

/* "npm:left-pad@1.3.0" as a request. */
static inline struct package_request request_of(const char *text, enum package_kind kind)
{
	struct package_request r = { .kind = kind };
	const char *colon = strchr(text, ':'), *at = strrchr(text, '@');

	if (at != NULL && at == colon + 1)
		at = NULL;
	CHECK(ecosystem_read(text, (size_t)(colon - text), &r.ecosystem));
	(void)snprintf(r.written, sizeof(r.written), "%.*s",
		       (int)(at == NULL ? strlen(colon + 1) : (size_t)(at - colon - 1)), colon + 1);
	CHECK(r.written[0] == '\0' ||
	      package_name_normal(r.ecosystem, r.written, strlen(r.written), r.name));
	(void)snprintf(r.version, sizeof(r.version), "%s", at == NULL ? "" : at + 1);
	return r;
}

static inline struct package_answer ask(const struct policy *p, const char *host, const char *text,
					enum package_kind kind, const struct package_facts *facts)
{
	static const char *const hosts[ECOSYSTEMS] = { "pypi.org",	   "registry.npmjs.org",
						       "deb.debian.org",   "index.crates.io",
						       "proxy.golang.org", "github.com",
						       "images.example",   "repo.maven.apache.org",
						       "rubygems.org" };
	struct package_request r = request_of(text, kind);
	struct package_question q = { .request = &r, .facts = facts, .now_ms = NOW };
	struct package_answer a;
	bool files;

	if (host == NULL)
		host = hosts[r.ecosystem];
	q.registry = packages_registry(policy_packages(p), host, 443, NULL, &files);
	package_judge(policy_packages(p), &q, &a);
	CHECK((a.verdict == PACKAGE_REFUSE) == (a.reason[0] != '\0'));
	for (const char *c = a.reason; *c != '\0'; c++)
		CHECK(*c >= ' ' && *c <= '~');
	return a;
}

static inline bool has_words(const struct package_answer *a, const char *words)
{
	if (words == NULL ? a->verdict == PACKAGE_ALLOW
			  : a->verdict == PACKAGE_REFUSE && strstr(a->reason, words) != NULL)
		return true;
	printf("# verdict %d: %s\n", a->verdict, a->reason);
	return false;
}

static inline struct package_facts aged(uint64_t age)
{
	return (struct package_facts){
		.version = "", .file = "", .has_time = true, .time_ms = NOW - age
	};
}

/* A file, with facts of one year ago that say nothing else; words NULL: allowed. */
static inline bool file_is(const struct policy *p, const char *text, const char *words)
{
	struct package_facts f = {
		.version = "", .file = "", .has_time = true, .time_ms = NOW - 365 * DAY
	};
	struct package_answer a = ask(p, NULL, text, PACKAGE_FILE, &f);

	return has_words(&a, words);
}

static inline bool meta_is(const struct policy *p, const char *text, const char *words)
{
	struct package_answer a = ask(p, NULL, text, PACKAGE_META, NULL);

	return has_words(&a, words);
}

static inline const char *fault(const char *member)
{
	static struct err e;
	struct policy *p = try_layers(NULL, NULL, member, &e);

	if (p == NULL)
		return e.msg;
	policy_free(p);
	return "(no error)";
}

static inline bool fails_with(const char *member, const char *words)
{
	return policy_error_has(fault(member), words, member);
}

static inline struct policy *make_documents(const char *node, const char *session)
{
	struct policy *p = policy_make(node, NULL, session);

	CHECK(p != NULL);
	return p;
}
