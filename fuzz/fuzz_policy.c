/* A document (up to the first NUL), read as each layer and merged, then a host and a path that are
 * asked for: what is read merges, what was merged is read, a refusal has a reason, a request is
 * never left open, and what a connection refuses no request is allowed. Packages are allowed
 * if each layer allows them, and only then. */
#include "fuzz.h"

#include <stdio.h>

#include "lib/packages/advisories.h"
#include "lib/policy/host.h"
#include "lib/packages/package_facts.h"
#include "lib/policy/package_judge.h"
#include "lib/policy/path.h"
#include "lib/policy/policy.h"

unsigned long fuzz_accepted;

static void ignore(const char *text, void *arg)
{
	assert(text[0] != '\0');
}

static void check_answer(const struct policy_answer *a)
{
	assert(memchr(a->reason, '\0', sizeof(a->reason)) != NULL);
	assert((a->verdict == POLICY_REFUSE) == (a->reason[0] != '\0'));
}

static void ask(const struct policy *p, const struct policy_target *to, const char *path)
{
	struct policy_request q = { .tls = true, .method = "GET", .path = path, .query = "a=b&c" };
	struct policy_answer connect, request;

	policy_connect(p, to, &connect);
	policy_ask(p, to, &q, &request);
	check_answer(&connect);
	check_answer(&request);
	assert(request.verdict != POLICY_INSPECT);
	if (connect.verdict == POLICY_REFUSE && request.verdict == POLICY_PERMIT)
		/* Only a ceiling or packages that must be read, for a rule that is never read. */
		assert(strstr(connect.reason, "without inspecting") != NULL ||
		       strstr(connect.reason, "protocol tcp") != NULL);
	if (connect.verdict == POLICY_PERMIT)
		assert(request.verdict == POLICY_PERMIT && request.rule == connect.rule);
	if (to->host != NULL && connect.verdict != POLICY_REFUSE) {
		policy_name(p, to->host, &connect);
		assert(connect.verdict == POLICY_PERMIT);
	}
	q.tls = false;
	policy_ask(p, to, &q, &request);
	check_answer(&request);
}

static void check_package(const struct packages_policy *p, const struct package_question *q)
{
	struct package_answer a, one;
	bool each = true;

	package_judge(p, q, &a);
	assert((a.verdict == PACKAGE_REFUSE) == (a.reason[0] != '\0'));
	assert(memchr(a.reason, '\0', sizeof(a.reason)) != NULL);
	assert(memchr(a.rule, '\0', sizeof(a.rule)) != NULL);
	for (const char *c = a.reason; *c != '\0'; c++)
		assert(*c >= ' ' && *c <= '~');
	assert(q->facts == NULL || a.verdict != PACKAGE_NEEDS_FACTS);
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		package_judge_layer(p, i, q, &one);
		each = each && one.verdict == PACKAGE_ALLOW;
	}
	assert(a.verdict == PACKAGE_BY_RULES || each == (a.verdict == PACKAGE_ALLOW));
}

/* Requests for packages, of every kind, named by the path. */
static void ask_packages(const struct policy *p, const char *path)
{
	static const char list[] = ADVISORIES_MAGIC "1 1\nnpm a * MAL-1\n";
	const struct packages_policy *packages = policy_packages(p);
	struct package_facts facts = { .version = "", .file = "" };
	struct package_request r = { 0 };
	struct advisories bad;
	struct package_question q = { .request = &r, .now_ms = 1000, .advisories = &bad };

	assert(advisories_open(list, strlen(list), &bad));
	(void)snprintf(r.version, sizeof(r.version), "%.100s", path);
	for (unsigned i = 0; i < ECOSYSTEMS * 40U; i++) {
		r.ecosystem = (enum ecosystem)(i % ECOSYSTEMS);
		r.kind = (enum package_kind)(i / ECOSYSTEMS % PACKAGE_KINDS);
		if (!package_name_normal(r.ecosystem, path + 1, strlen(path + 1), r.name))
			(void)snprintf(r.name, sizeof(r.name), "a");
		q.facts = i % 2 == 0 ? NULL : &facts;
		facts.has_time = i % 3 == 0;
		q.registry = i % 5 == 0 ? NULL : packages_registry_for(packages, r.ecosystem);
		check_package(packages, &q);
	}
}

static void ask_all(const struct policy *p, const uint8_t *data, size_t size)
{
	static char path[PATH_NORMAL_MAX];
	struct policy_target to = { .host = "pypi.org", .port = 443 };
	char host[HOST_MAX];
	const char *why = NULL;
	char *bytes = fuzz_copy(data, size);

	if (size > HTTP1_TARGET_MAX ||
	    path_normal((struct http1_span){ bytes, size }, path, sizeof(path), &why) < 0)
		(void)memcpy(path, "/a/b", 5);
	ask(p, &to, path);
	ask_packages(p, path);
	if (host_normal(bytes, size < 40 ? size : 40, host) == 0) {
		to.host = host;
		ask(p, &to, path);
	}
	to.host = NULL;
	if (size >= sizeof(to.ip.b))
		memcpy(to.ip.b, bytes, sizeof(to.ip.b));
	ask(p, &to, path);
	(void)policy_reachable(p, &to.ip);
	free(bytes);
}

static void merge(const char *text, enum policy_layer layer, const uint8_t *data, size_t size)
{
	const char *layers[POLICY_LAYERS] = { NULL };
	struct policy *p = NULL;
	struct err e = { 0 };
	char *merged = NULL;

	layers[layer] = text;
	if (layer != POLICY_SESSION)
		layers[POLICY_SESSION] =
			"{\"version\":1,\"default\":\"allow\",\"extends\":[\"pypi\"]}";
	if (policy_merge(layers, &merged, &e) < 0) {
		assert(e.msg[0] != '\0');
		return;
	}
	assert(policy_read(merged, strlen(merged), POLICY_LAYERS, &p, &e) == 0);
	ask_all(p, data, size);
	policy_check(p, ignore, NULL);
	policy_free(p);
	free(merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t n = end == NULL ? size : (size_t)(end - data);
	char *text = fuzz_text(data, n);

	data += n;
	size -= n;
	for (int layer = 0; layer <= POLICY_LAYERS; layer++) {
		struct policy *p = NULL;
		struct err e = { 0 };

		if (policy_read(text, n, (enum policy_layer)layer, &p, &e) < 0) {
			assert(p == NULL && e.msg[0] != '\0');
			continue;
		}
		fuzz_accepted++;
		ask_all(p, data, size);
		policy_free(p);
		if (layer < POLICY_LAYERS && n > 0)
			merge(text, (enum policy_layer)layer, data, size);
	}
	free(text);
	return 0;
}
