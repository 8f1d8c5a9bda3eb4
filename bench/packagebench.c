/* packagebench.c - what one request for a package costs: recognising it, and judging it by a policy
 * with 10,000 names that are denied and 10,000 pins. Prints a line for each kind: microseconds of
 * processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/packages/package_facts.h"
#include "lib/policy/package_judge.h"
#include "lib/policy/policy.h"

#define NAMES 10000
#define TEXT_MAX (2U << 20)
#define ROUNDS 200000

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct policy *make(bool names, bool pins)
{
	OWN_MEM char *text = malloc(TEXT_MAX);
	struct policy *p = NULL;
	struct err e = { 0 };
	size_t len;

	if (text == NULL)
		abort();
	len = (size_t)snprintf(text, TEXT_MAX,
			       "{\"packages\":{\"registries\":[\"npm\"],\"min_age\":\"7d\","
			       "\"deny\":[\"npm:*-nightly\"");
	for (int i = 0; names && i < NAMES; i++)
		len += (size_t)snprintf(text + len, TEXT_MAX - len,
					",\"npm:bad-package-%d@1.0.%d\"", i, i);
	len += (size_t)snprintf(text + len, TEXT_MAX - len, "],\"pins\":{\"npm:x\":[\"1.0.0\"]");
	for (int i = 0; pins && i < NAMES; i++)
		len += (size_t)snprintf(text + len, TEXT_MAX - len,
					",\"npm:package-%d\":[\"1.0.%d sha256:%064d\"]", i, i, i);
	len += (size_t)snprintf(text + len, TEXT_MAX - len, "}}}");
	if (policy_read(text, len, POLICY_SESSION, &p, &e) < 0) {
		(void)fprintf(stderr, "packagebench: %s\n", e.msg);
		exit(1);
	}
	return p;
}

static void measure(const char *kind, bool names, bool pins)
{
	struct policy *p = make(names, pins);
	const struct packages_policy *packages = policy_packages(p);
	struct package_facts facts = { .version = "", .file = "", .has_time = true, .time_ms = 1 };
	struct package_answer answer;
	struct package_request r;
	int64_t before = now_ns();

	for (int i = 0; i < ROUNDS; i++) {
		struct package_question q = { .request = &r,
					      .facts = &facts,
					      .now_ms = 1800000000000ULL };
		char path[96];
		bool files;

		(void)snprintf(path, sizeof(path), "/package-%d/-/package-%d-1.0.%d.tgz", i % NAMES,
			       i % NAMES, i % NAMES);
		q.registry = packages_registry(packages, "registry.npmjs.org", 443, path, &files);
		package_request_read(ECO_NPM, files, "GET", path, NULL, &r);
		package_judge(packages, &q, &answer);
		if (r.kind != PACKAGE_FILE || answer.verdict != PACKAGE_ALLOW ||
		    (answer.pins[POLICY_SESSION].n == 1) != pins) {
			(void)fprintf(stderr, "packagebench: %s: %s\n", path, answer.reason);
			exit(1);
		}
	}
	(void)printf("%-42s %6.2f us\n", kind, (double)(now_ns() - before) / ROUNDS / 1000.0);
	policy_free(p);
}

int main(void)
{
	measure("a request, short policy", false, false);
	measure("a request, 10,000 names denied", true, false);
	measure("a request, 10,000 pins", false, true);
	measure("a request, 10,000 names and 10,000 pins", true, true);
	return 0;
}
