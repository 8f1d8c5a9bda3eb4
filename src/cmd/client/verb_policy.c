/* verb_policy.c - cordon policy: checks, merges and explains policies without a server. It uses the
 * library that decides in cordon-egress, so the results are the same. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/client/args.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/packages/package_facts.h"
#include "lib/policy/host.h"
#include "lib/policy/package_judge.h"
#include "lib/policy/packages_policy.h"
#include "lib/policy/path.h"
#include "lib/policy/policy.h"

/* With --json, the steps of an explanation or the warnings of a check. NULL: they are printed. */
static json_t *collected;

/* JSON is UTF-8, and typed text need not be. The escaped text is always UTF-8. */
static json_t *text_of(const char *text)
{
	char shown[4096];

	(void)show_escape(text, shown, sizeof(shown));
	return json_string(shown);
}

/* One line of an explanation. The stage is a word of this program, the text may quote the policy
 * or the question. */
static void policy_step(const char *stage, const char *text)
{
	if (collected != NULL) {
		(void)json_array_append_new(
			collected, json_pack("{s:s, s:o}", "stage", stage, "text", text_of(text)));
		return;
	}
	(void)printf("%-11s ", stage);
	show_text(text, stdout);
	(void)putchar('\n');
}

/* Print the object and take it. */
static void print_object(json_t *object)
{
	show_json(object, true, stdout);
	json_decref(object);
}

/* ---- how a policy decides on one destination, stage by stage
 *
 * The stages are those of a real connection: the name is resolved, the address is checked, the
 * connection is decided on, and then each request if the policy looks inside. Every stage calls
 * the function that cordon-egress calls. */

struct explain_question {
	const char *host; /* as typed: a name or an address */
	uint16_t port;
	const char *method, *path; /* path as typed, perhaps with a query */
	bool plain;		   /* not over TLS */
};

/* The question in its normal forms. */
struct explain_asked {
	struct policy_target to;
	char host[HOST_MAX];
	struct policy_request request;
	char path[PATH_NORMAL_MAX], query[PATH_NORMAL_MAX];
};

/* The path in the form that rules are compared with. A path that has no such form is refused in
 * reality as well, so that is an error here. */
static int read_path(const char *text, struct explain_asked *a, struct err *e)
{
	size_t n = strcspn(text, "?");
	const char *why = NULL;

	if (strlen(text) > HTTP1_TARGET_MAX)
		return err_set(e, ERR_INVALID, "the path is too long");
	if (path_normal((struct http1_span){ text, n }, a->path, sizeof(a->path), &why) < 0)
		return err_set(e, ERR_INVALID, "a request with this path is never allowed: %s",
			       why);
	a->request.path = a->path;
	if (text[n] == '\0')
		return 0;
	text += n + 1;
	if (path_normal_query((struct http1_span){ text, strlen(text) }, a->query, sizeof(a->query),
			      &why) < 0)
		return err_set(e, ERR_INVALID, "a request with this query is never allowed: %s",
			       why);
	a->request.query = a->query;
	return 0;
}

/* A name or an address, never both: a name's addresses are not looked up, because the
 * explanation must not depend on DNS. */
static int explain_read_question(const struct explain_question *q, struct explain_asked *a,
				 struct err *e)
{
	size_t n = strlen(q->host);

	a->to.port = q->port;
	a->request.tls = !q->plain;
	a->request.method = q->method;
	if (host_normal(q->host, n, a->host) == 0)
		a->to.host = a->host;
	else if (ip_read(q->host, n, &a->to.ip) < 0)
		return err_set(e, ERR_INVALID, "'%.80s' is neither a name nor an address", q->host);
	return read_path(q->path, a, e);
}

/* One line: the subject, the decision, and the rule or the reason behind it. */
static void print_row(const char *stage, const char *what, const char *words,
		      const struct policy_answer *a)
{
	const char *why = a->verdict == POLICY_REFUSE ? a->reason
			  : a->rule != NULL	      ? a->rule->name
			  : a->by_registry ? "packages.registries; --package explains packages"
					   : "the default";
	char text[2048];

	(void)snprintf(text, sizeof(text),
		       a->verdict == POLICY_REFUSE ? "%s: %s %s" : "%s: %s (%s)", what, words, why);
	policy_step(stage, text);
}

/* Three kinds of permission: bytes without a look, TLS after a look at its name, and a look at
 * each request. */
static const char *connection_words(const struct policy_answer *a, bool plain)
{
	if (a->verdict == POLICY_REFUSE)
		return "refused:";
	if (a->verdict == POLICY_INSPECT)
		return plain ? "each request is checked"
			     : "each request is checked; TLS is terminated";
	if (a->rule == NULL || a->rule->raw)
		return "allowed; bytes of any kind are passed on";
	return "allowed; TLS is passed on after its name was checked";
}

/* A refused name that resolves nevertheless is connected to, and the connection is refused. */
static bool explain_name(const struct policy *p, const struct explain_asked *q)
{
	struct policy_answer a;

	if (q->to.host == NULL)
		return true;
	policy_name(p, q->to.host, &a);
	print_row("name", q->to.host,
		  a.verdict != POLICY_REFUSE  ? "exists"
		  : policy_answers_refused(p) ? "refused:"
					      : "does not exist:",
		  &a);
	return a.verdict != POLICY_REFUSE;
}

/* Names have no address here, so only typed addresses are checked against private ranges. */
static bool explain_address(const struct policy *p, const struct explain_asked *q)
{
	char text[256];

	if (q->to.host != NULL || policy_reachable(p, &q->to.ip))
		return true;
	(void)snprintf(text, sizeof(text),
		       "never connected to: it is %s, and the node's policy does not name it in "
		       "\"private\"",
		       ip_kind_name(ip_kind(&q->to.ip)));
	policy_step("address", text);
	return false;
}

/* Print it. 1: allowed, 0: refused. -1: the question is malformed. The first refusal ends the
 * explanation, as it would end the connection. */
static int explain_print(const struct policy *p, const struct explain_question *q, struct err *e)
{
	static struct explain_asked explain_asked;
	char what[HOST_MAX + 80];
	struct policy_answer a;

	explain_asked = (struct explain_asked){ 0 };
	if (explain_read_question(q, &explain_asked, e) < 0)
		return -1;
	if (!explain_name(p, &explain_asked) || !explain_address(p, &explain_asked))
		return 0;
	policy_connect(p, &explain_asked.to, &a);
	(void)snprintf(what, sizeof(what), "%s port %u", q->host, q->port);
	print_row("connection", what, connection_words(&a, q->plain), &a);
	if (a.verdict != POLICY_INSPECT)
		return a.verdict == POLICY_PERMIT;
	policy_ask(p, &explain_asked.to, &explain_asked.request, &a);
	(void)snprintf(what, sizeof(what), "%.30s %.200s", q->method, explain_asked.path);
	print_row("request", what, a.verdict == POLICY_REFUSE ? "refused:" : "allowed", &a);
	return a.verdict == POLICY_PERMIT;
}

/* ---- how a policy decides on one package, layer by layer. It asks the questions of cordon-egress,
 * with facts from the user in place of a registry. */

struct explain_package {
	const char *package;  /* ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION */
	const char *released; /* a date, or an age such as 3h. NULL: not told */
	bool scripts;	      /* it runs code when it is installed */
	bool source;	      /* it is built from source */
	bool direct;	      /* from a host outside registries */
};

/* The question in the form of package_judge(). name and request have the values that a
 * registry's router would find. */
struct policy_asked {
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

/* Without any fact the rules that need one answer "depends". A given age counts as the time of
 * the first sight, too. */
static int read_facts(const struct explain_package *from, struct policy_asked *a, struct err *e)
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

/* A name with a version is the request for a file, one without is the request for metadata.
 * Without packages in the policy there is no registry. */
static int read_question(const struct policy *p, const struct explain_package *from,
			 struct policy_asked *a, struct err *e)
{
	struct package_request *r = &a->request;

	if (!package_name_read(from->package, false, &a->name))
		return err_set(e, ERR_INVALID,
			       "'%.100s' is not ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION",
			       from->package);
	r->ecosystem = a->name.ecosystem;
	r->kind = a->name.version[0] == '\0' ? PACKAGE_META : PACKAGE_FILE;
	r->source = from->source;
	str_copy(r->name, a->name.name);
	str_copy(r->written, a->name.name);
	str_copy(r->version, a->name.version);
	a->q.request = r;
	a->q.now_ms = (uint64_t)time(NULL) * 1000;
	if (!from->direct)
		a->q.registry = packages_registry_for(policy_packages(p), r->ecosystem);
	return read_facts(from, a, e);
}

/* The answer of one layer. "Depends" names the options that would decide. */
static void print_answer(const char *who, const struct package_answer *a)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "%s%s",
		       a->verdict == PACKAGE_ALLOW ? "allows it"
		       : a->verdict == PACKAGE_NEEDS_FACTS
			       ? "depends on its age or install code (--released, --scripts)"
			       : "refuses it: ",
		       a->reason);
	policy_step(who, text);
}

/* Where the package would come from. An implicit registry counts only if rules allow its hosts. */
static void print_where(const struct policy_asked *a)
{
	const struct package_registry *r = a->q.registry;
	char text[1024] = "no registry: a file at any host that rules allow";

	if (r != NULL)
		(void)snprintf(text, sizeof(text), "%s (%s)%s", r->name, r->host.name,
			       r->is_implicit ? ", if rules allow its hosts" : "");
	policy_step("from", text);
}

/* The answer of all layers. For a name alone it covers the metadata, and each version is judged
 * again. */
static void print_result(const struct package_answer *a, const struct policy_asked *q,
			 const struct explain_package *from)
{
	char text[1024];

	if (a->verdict == PACKAGE_REFUSE)
		(void)snprintf(text, sizeof(text), "refused by %s", a->rule);
	else if (a->verdict == PACKAGE_ALLOW && q->request.kind == PACKAGE_META)
		(void)snprintf(text, sizeof(text),
			       "the name is allowed; each version is judged by itself (%s@VERSION)",
			       from->package);
	else
		(void)snprintf(text, sizeof(text), "%s",
			       a->verdict == PACKAGE_ALLOW ? "allowed" : "not decided");
	policy_step("result", text);
}

/* Print it. 1: allowed, 0: refused, or it depends on missing facts. -1: the question is
 * malformed. The layers are printed one by one, and the last line is the decision of all
 * together. */
static int explain_package_print(const struct policy *p, const struct explain_package *from,
				 struct err *e)
{
	static const char *const names[POLICY_LAYERS] = { "node", "tenant", "session" };
	const struct packages_policy *packages = policy_packages(p);
	struct package_answer answer;
	struct policy_asked a = { 0 };

	if (read_question(p, from, &a, e) < 0)
		return -1;
	if (packages == NULL) {
		if (collected == NULL)
			(void)puts("no layer has packages: rules alone decide");
		else
			policy_step("result", "no layer has packages: rules alone decide");
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
	print_result(&answer, &a, from);
	return answer.verdict == PACKAGE_ALLOW;
}

#define EXIT_NEGATIVE 1

struct policy_fields {
	struct args_common common;
	const char *policy, *preset, *node, *tenant, *session;
	const char *host, *method, *path, *layer, *package, *released;
	uint64_t port;
	bool plain, strict, scripts, source, direct;
};

#define FIELD(name) offsetof(struct policy_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "policy", "FILE", OPTION_TEXT, FIELD(policy), 0, 0,
	  "explain: the session's policy (- is standard input)" },
	{ "preset", "NAME", OPTION_TEXT, FIELD(preset), 0, 0, "explain: a preset instead", .values = "@presets" },
	{ "node", "FILE", OPTION_TEXT, FIELD(node), 0, 0, "merge, explain: the node's policy" },
	{ "tenant", "FILE", OPTION_TEXT, FIELD(tenant), 0, 0, "merge, explain: the tenant's policy" },
	{ "session", "FILE", OPTION_TEXT, FIELD(session), 0, 0, "merge: the session's policy" },
	{ "host", "NAME", OPTION_TEXT, FIELD(host), 0, 0, "explain: a name or an address" },
	{ "port", "PORT", OPTION_COUNT, FIELD(port), 1, 65535, "explain: the port (default 443, or 80 with --plain)" },
	{ "method", "NAME", OPTION_TEXT, FIELD(method), 0, 0, "explain: the method (default GET)" },
	{ "path", "PATH", OPTION_TEXT, FIELD(path), 0, 0, "explain: the path, with a query if any (default /)" },
	{ "plain", NULL, OPTION_FLAG, FIELD(plain), 0, 0, "explain: HTTP without TLS" },
	{ "package", "ECOSYSTEM:NAME[@VERSION]", OPTION_TEXT, FIELD(package), 0, 0,
	  "explain: a package, such as npm:left-pad@1.3.0, instead of a host" },
	{ "released", "DATE", OPTION_TEXT, FIELD(released), 0, 0,
	  "explain: when the package was released: 2026-11-16, or an age such as 3h" },
	{ "scripts", NULL, OPTION_FLAG, FIELD(scripts), 0, 0,
	  "explain: the package runs code when it is installed" },
	{ "source", NULL, OPTION_FLAG, FIELD(source), 0, 0,
	  "explain: the package is built from source" },
	{ "direct", NULL, OPTION_FLAG, FIELD(direct), 0, 0,
	  "explain: the package comes from a host that is no registry" },
	{ "layer", "NAME", OPTION_TEXT, FIELD(layer), 0, 0,
	  "check: layer of the policy: node, tenant or session (default)", .values = "node tenant session" },
	{ "strict", NULL, OPTION_FLAG, FIELD(strict), 0, 0, "check: a warning is an error" },
	{ "json", NULL, OPTION_FLAG, FIELD(common.json), 0, 0,
	  "prints one JSON object: valid and warnings, allowed and steps, or presets" },
	{ "help", NULL, OPTION_FLAG, FIELD(common.help), 0, 0, "shows this help" },
};
/* clang-format on */

/* All of a file. "-" is standard input. The buffer of the caller bounds it. An empty file is an
 * error: as a policy it would mean no rules at all. */
static int policy_load(const char *path, struct buf *ret, struct err *e)
{
	FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char piece[4096];
	size_t n;
	int result = 0;

	if (from == NULL)
		return err_sys(e, "cannot open %.120s", path);
	while (result == 0 && (n = fread(piece, 1, sizeof(piece), from)) > 0)
		result = buf_add(ret, piece, n, e);
	if (result == 0 && ferror(from))
		result = err_sys(e, "cannot read %.120s", path);
	if (result == 0 && ret->len == 0)
		result = err_set(e, ERR_INVALID, "%.120s is empty", path);
	if (result == 0 && memchr(ret->data, '\0', ret->len) != NULL)
		result = err_set(e, ERR_INVALID, "%.120s is not text", path);
	if (from != stdin)
		(void)fclose(from);
	return result;
}

/* The files of up to three layers, merged. *ret is freed by the caller. A preset stands in the
 * place of the session's layer, unless that has a file. */
static int verb_policy_merge(const char *const paths[POLICY_LAYERS], const char *preset, char **ret,
			     struct err *e)
{
	const char *texts[POLICY_LAYERS] = { NULL, NULL, preset };
	struct buf files[POLICY_LAYERS];
	int result = 0;

	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		buf_init(&files[i], POLICY_TEXT_MAX);
		if (result < 0 || paths[i] == NULL)
			continue;
		result = policy_load(paths[i], &files[i], e);
		if (result == 0)
			texts[i] = buf_text(&files[i]);
	}
	if (result == 0)
		result = policy_merge(texts, ret, e);
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		buf_release(&files[i]);
	return result;
}

/* The merged document, compiled. The same text that cordon-egress would get from the server.
 * *ret is freed by policy_free(). */
static int read_merged(const char *const paths[POLICY_LAYERS], const char *preset,
		       struct policy **ret, struct err *e)
{
	OWN_MEM char *text = NULL;

	if (verb_policy_merge(paths, preset, &text, e) < 0)
		return -1;
	assert(text != NULL);
	return policy_read(text, strlen(text), POLICY_LAYERS, ret, e);
}

/* With --json there is an object, too: {"valid": false, "error": ...}, or "allowed". */
static int fail_check(const struct policy_fields *f, const char *member, const struct err *e)
{
	struct err safe = *e;

	(void)args_fail(e);
	err_sanitize(&safe);
	if (f->common.json)
		print_object(json_pack("{s:b, s:o}", member, 0, "error", text_of(safe.msg)));
	return EXIT_NEGATIVE;
}

/* Called by policy_check() for each warning, which is counted, and printed or collected. */
static void policy_warn(const char *text, void *arg)
{
	++*(size_t *)arg;
	if (collected != NULL) {
		(void)json_array_append_new(collected, text_of(text));
		return;
	}
	(void)fputs("warning: ", stdout);
	show_text(text, stdout);
	(void)putchar('\n');
}

/* POLICY_LAYERS: there is no such one. */
static size_t find_layer(const char *name)
{
	static const char *const layers[POLICY_LAYERS] = { "node", "tenant", "session" };
	size_t i = 0;

	while (i < POLICY_LAYERS && strcmp(layers[i], name) != 0)
		i++;
	return i;
}

/* The file is checked in its layer, because some members are for the node's policy only. */
static int verb_policy_check(const struct policy_fields *f, const char *path)
{
	const char *paths[POLICY_LAYERS] = { NULL };
	struct policy *p = NULL;
	struct err e = { 0 };
	size_t warnings = 0, layer = f->layer == NULL ? POLICY_SESSION : find_layer(f->layer);

	if (layer == POLICY_LAYERS)
		return args_wrong(&verb_policy, "no layer '%.40s'", f->layer);
	paths[layer] = path;
	if (read_merged(paths, NULL, &p, &e) < 0)
		return fail_check(f, "valid", &e);
	collected = f->common.json ? json_array() : NULL;
	policy_check(p, policy_warn, &warnings);
	if (f->common.json)
		print_object(json_pack("{s:b, s:I, s:b, s:o}", "valid", 1, "rules",
				       (json_int_t)policy_rules(p), "packages",
				       policy_packages(p) != NULL, "warnings", collected));
	else
		(void)printf("%s%zu rules, %zu warnings\n",
			     policy_packages(p) != NULL ? "packages, " : "", policy_rules(p),
			     warnings);
	policy_free(p);
	return warnings > 0 && f->strict ? EXIT_NEGATIVE : ARGS_OK;
}

/* The defaults of a question: GET / at port 443, or 80 without TLS. */
static int verb_policy_ask(const struct policy_fields *f, const struct policy *p, struct err *e)
{
	const struct explain_package package = { .package = f->package,
						 .released = f->released,
						 .scripts = f->scripts,
						 .source = f->source,
						 .direct = f->direct };
	const struct explain_question q = { .host = f->host,
					    .method = f->method != NULL ? f->method : "GET",
					    .path = f->path != NULL ? f->path : "/",
					    .port = (uint16_t)(f->port != 0 ? f->port
							       : f->plain   ? 80
									    : 443),
					    .plain = f->plain };

	return f->package != NULL ? explain_package_print(p, &package, e) : explain_print(p, &q, e);
}

/* Exactly one of host and package. The exit code is the answer, so a script can test a policy.
 * An invalid policy counts as a refusal. */
static int policy_explain(const struct policy_fields *f)
{
	const char *const paths[POLICY_LAYERS] = { f->node, f->tenant, f->policy };
	const char *preset = f->preset != NULL ? policy_preset(f->preset) : NULL;
	struct policy *p = NULL;
	struct err e = { 0 };
	int allowed;

	if ((f->host == NULL) == (f->package == NULL))
		return args_wrong(&verb_policy, "explain needs --host or --package");
	if (f->package != NULL && f->policy == NULL && f->preset == NULL && f->node == NULL &&
	    f->tenant == NULL)
		return args_wrong(&verb_policy, "explain --package needs a policy: --policy FILE");
	if (f->preset != NULL && (preset == NULL || f->policy != NULL))
		return args_wrong(&verb_policy,
				  preset == NULL ? "no preset '%.40s'"
						 : "--preset '%.40s' or --policy, "
						   "not both",
				  f->preset);
	if (read_merged(paths, preset, &p, &e) < 0)
		return fail_check(f, "allowed", &e);
	collected = f->common.json ? json_array() : NULL;
	allowed = verb_policy_ask(f, p, &e);
	policy_free(p);
	if (allowed < 0)
		return fail_check(f, "allowed", &e);
	if (f->common.json)
		print_object(json_pack("{s:b, s:o}", "allowed", allowed > 0, "steps", collected));
	return allowed > 0 ? ARGS_OK : EXIT_NEGATIVE;
}

/* The merged document is JSON already. */
static int print_merged(const struct policy_fields *f)
{
	const char *const paths[POLICY_LAYERS] = { f->node, f->tenant, f->session };
	OWN_MEM char *text = NULL;
	struct err e = { 0 };

	if (verb_policy_merge(paths, NULL, &text, &e) < 0)
		return fail_check(f, "valid", &e);
	(void)puts(text);
	return ARGS_OK;
}

/* Without a name the list, with one the text of that preset. */
static int policy_presets(const struct policy_fields *f, const char *name)
{
	const char *summary = NULL, *one;
	OWN_JSON *list = json_array();

	if (name != NULL && policy_preset(name) == NULL)
		return args_wrong(&verb_policy, "no preset '%.40s'", name);
	if (name != NULL) {
		(void)puts(policy_preset(name));
		return ARGS_OK;
	}
	for (size_t i = 0; (one = policy_preset_name(i, &summary)) != NULL; i++) {
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s}", "name", one, "summary", summary));
		if (!f->common.json)
			(void)printf("%-12s %s\n", one, summary);
	}
	if (f->common.json)
		print_object(json_pack("{s:O}", "presets", list));
	return ARGS_OK;
}

/* The four words need no server and no key. */
static int policy_run(int argc, char **argv)
{
	static struct policy_fields f;
	static struct args_words words;
	int code = args_read(&verb_policy, argc, argv, &f, &words, 1, 2);
	const char *what = words.at[0];

	if (code != ARGS_GO)
		return code;
	if (strcmp(what, "check") == 0 && words.n == 2)
		return verb_policy_check(&f, words.at[1]);
	if (strcmp(what, "explain") == 0 && words.n == 1)
		return policy_explain(&f);
	if (strcmp(what, "merge") == 0 && words.n == 1)
		return print_merged(&f);
	if (strcmp(what, "presets") == 0)
		return policy_presets(&f, words.n == 2 ? words.at[1] : NULL);
	return args_wrong(&verb_policy, "check FILE, explain, merge or presets, not '%.40s'", what);
}

const struct verb verb_policy = {
	.name = "policy",
	.usage = "check FILE | explain [options] | merge [options] | presets [NAME]",
	.summary = "Checks and explains network policies; needs no server.",
	.text = "check exits with 1 if the policy is not valid, explain if it refuses the "
		"request.\n"
		"doc/policy.md describes policies.\n",
	.examples = "cordon policy presets\n"
		    "cordon policy check policy.json\n"
		    "cordon policy explain --preset github-read --host github.com --method POST\n",
	.options = options,
	.noptions = COUNT(options),
	.run = policy_run,
};
