/* explain_package.c - see explain_package.h. It asks what cordon-egress asks, with facts that the
 * user gives in place of a registry. */
#include "explain_package.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "package_facts.h"
#include "package_judge.h"
#include "show.h"
#include "units.h"

struct asked {
	struct package_name name;
	struct package_request request;
	struct package_facts facts;
	struct package_question q;
};

/* "2026-11-16", "2026-11-16T10:00:00Z" or an age. */
static int read_time(const char *text, uint64_t now_ms, uint64_t *ret, struct err *e)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ" };
	uint64_t age;
	struct err why;

	for (size_t i = 0; i < COUNT(forms); i++) {
		struct tm t = { 0 };
		const char *end = strptime(text, forms[i], &t);

		if (end == NULL || *end != '\0' || timegm(&t) < 0)
			continue;
		*ret = (uint64_t)timegm(&t) * 1000;
		return 0;
	}
	if (units_time_ms(text, 0, now_ms, &age, &why) < 0)
		return err_set(
			e, ERR_INVALID,
			"--released: '%.60s' is neither a date such as 2026-11-16 nor an age "
			"such as 3h",
			text);
	*ret = now_ms - age;
	return 0;
}

static int read_facts(const struct explain_package *from, struct asked *a, struct err *e)
{
	a->facts = (struct package_facts){ .version = "", .file = "" };
	if (from->released == NULL && !from->scripts)
		return 0;
	a->facts.install_code = from->scripts ? INSTALL_CODE_YES : INSTALL_CODE_NO;
	a->facts.has_time = from->released != NULL;
	a->q.facts = &a->facts;
	if (from->released == NULL)
		return 0;
	if (read_time(from->released, a->q.now_ms, &a->facts.time_ms, e) < 0)
		return -1;
	a->q.first_seen_ms = a->facts.time_ms;
	return 0;
}

static int read_question(const struct policy *p, const struct explain_package *from,
			 struct asked *a, struct err *e)
{
	struct package_request *r = &a->request;

	if (!package_name_read(from->package, false, &a->name))
		return err_set(e, ERR_INVALID,
			       "'%.100s' is not ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION",
			       from->package);
	r->ecosystem = a->name.ecosystem;
	r->kind = a->name.version[0] == '\0' ? PACKAGE_META : PACKAGE_FILE;
	r->source = from->source;
	(void)snprintf(r->name, sizeof(r->name), "%s", a->name.name);
	(void)snprintf(r->written, sizeof(r->written), "%s", a->name.name);
	(void)snprintf(r->version, sizeof(r->version), "%s", a->name.version);
	a->q.request = r;
	a->q.now_ms = (uint64_t)time(NULL) * 1000;
	if (!from->direct)
		a->q.registry = packages_registry_for(policy_packages(p), r->ecosystem);
	return read_facts(from, a, e);
}

static void print_answer(const char *who, const struct package_answer *a)
{
	(void)printf("%-11s ", who);
	if (a->verdict == PACKAGE_ALLOW)
		(void)fputs("allows it", stdout);
	else if (a->verdict == PACKAGE_NEEDS_FACTS)
		(void)fputs("depends on its age or install code (--released, --scripts)", stdout);
	else
		(void)fputs("refuses it: ", stdout);
	show_text(a->reason, stdout);
	(void)putchar('\n');
}

static void print_where(const struct asked *a)
{
	const struct package_registry *r = a->q.registry;

	if (r == NULL)
		(void)printf("%-11s no registry: a file at any host that rules allow\n", "from");
	else
		(void)printf("%-11s %s (%s)%s\n", "from", r->name, r->host.name,
			     r->is_implicit ? ", if rules allow its hosts" : "");
}

int explain_package_print(const struct policy *p, const struct explain_package *from, struct err *e)
{
	static const char *const names[POLICY_LAYERS] = { "node", "tenant", "session" };
	const struct packages_policy *packages = policy_packages(p);
	struct package_answer answer;
	struct asked a = { 0 };

	if (read_question(p, from, &a, e) < 0)
		return -1;
	if (packages == NULL) {
		(void)puts("no layer has packages: rules alone decide");
		return 1;
	}
	print_where(&a);
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		if (!package_judge_has(packages, i))
			continue;
		package_judge_layer(packages, i, &a.q, &answer);
		print_answer(names[i], &answer);
	}
	package_judge(packages, &a.q, &answer);
	if (answer.verdict == PACKAGE_REFUSE)
		(void)printf("%-11s refused by %s\n", "result", answer.rule);
	else if (answer.verdict == PACKAGE_ALLOW && a.request.kind == PACKAGE_META)
		(void)printf("%-11s the name is allowed; each version is judged by itself "
			     "(%s@VERSION)\n",
			     "result", from->package);
	else
		(void)printf("%-11s %s\n", "result",
			     answer.verdict == PACKAGE_ALLOW ? "allowed" : "not decided");
	return answer.verdict == PACKAGE_ALLOW;
}
