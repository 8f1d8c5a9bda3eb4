/* verb_policy.c - cordon policy: checks, merges and explains policies without a server. It uses the
 * library that decides in cordon-egress, so the results are the same. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "buf.h"
#include "explain.h"
#include "explain_package.h"
#include "packages_policy.h"
#include "policy.h"
#include "show.h"
#include "verbs.h"

#define EXIT_NEGATIVE 1

struct fields {
	struct args_common common;
	const char *policy, *preset, *node, *tenant, *session;
	const char *host, *method, *path, *layer, *package, *released;
	uint64_t port;
	bool plain, strict, scripts, source, direct;
};

#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "policy", "FILE", OPTION_TEXT, FIELD(policy), 0, 0,
	  "explain: the session's policy (- is standard input)" },
	{ "preset", "NAME", OPTION_TEXT, FIELD(preset), 0, 0, "explain: a preset instead" },
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
	  "check: layer of the policy: node, tenant or session (default)" },
	{ "strict", NULL, OPTION_FLAG, FIELD(strict), 0, 0, "check: a warning is an error" },
	{ "help", NULL, OPTION_FLAG, FIELD(common.help), 0, 0, "shows this help" },
};
/* clang-format on */

/* All of a file. */
static int load(const char *path, struct buf *ret, struct err *e)
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

/* The files of up to three layers, merged. *ret is freed by the caller. */
static int merge(const char *const paths[POLICY_LAYERS], const char *preset, char **ret,
		 struct err *e)
{
	const char *texts[POLICY_LAYERS] = { NULL, NULL, preset };
	struct buf files[POLICY_LAYERS];
	int result = 0;

	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		buf_init(&files[i], POLICY_TEXT_MAX);
		if (result < 0 || paths[i] == NULL)
			continue;
		result = load(paths[i], &files[i], e);
		if (result == 0)
			texts[i] = buf_text(&files[i]);
	}
	if (result == 0)
		result = policy_merge(texts, ret, e);
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		buf_release(&files[i]);
	return result;
}

/* The same, compiled. */
static int read_merged(const char *const paths[POLICY_LAYERS], const char *preset,
		       struct policy **ret, struct err *e)
{
	OWN_MEM char *text = NULL;

	if (merge(paths, preset, &text, e) < 0)
		return -1;
	assert(text != NULL);
	return policy_read(text, strlen(text), POLICY_LAYERS, ret, e);
}

static int fail_check(const struct err *e)
{
	(void)args_fail(e);
	return EXIT_NEGATIVE;
}

static void warn(const char *text, void *arg)
{
	(void)fputs("warning: ", stdout);
	show_text(text, stdout);
	(void)putchar('\n');
	++*(size_t *)arg;
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

static int check(const struct fields *f, const char *path)
{
	const char *paths[POLICY_LAYERS] = { NULL };
	struct policy *p = NULL;
	struct err e = { 0 };
	size_t warnings = 0, layer = f->layer == NULL ? POLICY_SESSION : find_layer(f->layer);

	if (layer == POLICY_LAYERS)
		return args_wrong(&verb_policy, "no layer '%.40s'", f->layer);
	paths[layer] = path;
	if (read_merged(paths, NULL, &p, &e) < 0)
		return fail_check(&e);
	policy_check(p, warn, &warnings);
	(void)printf("%s%zu rules, %zu warnings\n", policy_packages(p) != NULL ? "packages, " : "",
		     policy_rules(p), warnings);
	policy_free(p);
	return warnings > 0 && f->strict ? EXIT_NEGATIVE : ARGS_OK;
}

static int ask(const struct fields *f, const struct policy *p, struct err *e)
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

static int explain(const struct fields *f)
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
		return fail_check(&e);
	allowed = ask(f, p, &e);
	policy_free(p);
	return allowed < 0 ? fail_check(&e) : allowed > 0 ? ARGS_OK : EXIT_NEGATIVE;
}

static int print_merged(const struct fields *f)
{
	const char *const paths[POLICY_LAYERS] = { f->node, f->tenant, f->session };
	OWN_MEM char *text = NULL;
	struct err e = { 0 };

	if (merge(paths, NULL, &text, &e) < 0)
		return fail_check(&e);
	(void)puts(text);
	return ARGS_OK;
}

static int presets(const char *name)
{
	const char *summary = NULL, *one;

	if (name != NULL && policy_preset(name) == NULL)
		return args_wrong(&verb_policy, "no preset '%.40s'", name);
	if (name != NULL) {
		(void)puts(policy_preset(name));
		return ARGS_OK;
	}
	for (size_t i = 0; (one = policy_preset_name(i, &summary)) != NULL; i++)
		(void)printf("%-12s %s\n", one, summary);
	return ARGS_OK;
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	int code = args_read(&verb_policy, argc, argv, &f, &words, 1, 2);
	const char *what = words.at[0];

	if (code != ARGS_GO)
		return code;
	if (strcmp(what, "check") == 0 && words.n == 2)
		return check(&f, words.at[1]);
	if (strcmp(what, "explain") == 0 && words.n == 1)
		return explain(&f);
	if (strcmp(what, "merge") == 0 && words.n == 1)
		return print_merged(&f);
	if (strcmp(what, "presets") == 0)
		return presets(words.n == 2 ? words.at[1] : NULL);
	return args_wrong(&verb_policy, "check FILE, explain, merge or presets, not '%.40s'", what);
}

const struct verb verb_policy = {
	.name = "policy",
	.usage = "check FILE | explain [options] | merge [options] | presets [NAME]",
	.summary = "Checks and explains network policies; needs no server.",
	.text = "check exits with 1 if the policy is not valid, explain if it refuses the "
		"request.\n"
		"doc/policy.md describes policies.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
