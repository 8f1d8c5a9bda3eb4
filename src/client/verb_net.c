/* verb_net.c - cordon net: prints the network records of a session, or changes its policy. */
#include <stdio.h>
#include <string.h>

#include "compose.h"
#include "follow.h"
#include "member.h"
#include "id_match.h"
#include "show.h"
#include "show_json.h"
#include "units.h"
#include "verbs.h"

#define TARGET_TEXT_MAX 512
#define RULE_TEXT_MAX 512

struct fields {
	struct args_common common;
	bool follow, denied;
	const char *kind, *name, *execution, *after;
	struct option_list policy, allow;
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct fields, follow), 0, 0,
	  "waits for new records", 'f' },
	{ "denied", NULL, OPTION_FLAG, offsetof(struct fields, denied), 0, 0,
	  "only refused attempts" },
	{ "kind", "KIND", OPTION_TEXT, offsetof(struct fields, kind), 0, 0,
	  "only dns, connect, request, package or datagram" },
	{ "name", "HOST", OPTION_TEXT, offsetof(struct fields, name), 0, 0,
	  "only records of this host" },
	{ "execution", "ID", OPTION_TEXT, offsetof(struct fields, execution), 0, 0,
	  "only records of this execution" },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct fields, after), 0, 0,
	  "only records after this number" },
	{ "policy", "FILE|PRESET,...", OPTION_LIST, offsetof(struct fields, policy), 0, 0,
	  "replaces its policy: a JSON file, or presets (none: nothing allowed)" },
	{ "allow", "HOST[:PORT][/PATH]", OPTION_LIST, offsetof(struct fields, allow), 0, 0,
	  "replaces its policy: this host, and what --policy allows" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* npm:left-pad@1.3.0 */
static void package_of(const json_t *p, char ret[TARGET_TEXT_MAX])
{
	const char *version = member_text(p, "version", "");
	const char *name = member_text(p, "name", member_text(p, "file", ""));

	(void)snprintf(ret, TARGET_TEXT_MAX, "%s%s%s%s%s", member_text(p, "ecosystem", "?"),
		       name[0] == '\0' ? "" : ":", name, version[0] == '\0' ? "" : "@", version);
}

/* The target as requested, not as resolved. */
static void target_of(const json_t *r, char ret[TARGET_TEXT_MAX])
{
	const char *name = member_text(r, "name", member_text(r, "address", "?"));
	const char *path = member_text(r, "path", ""), *query = member_text(r, "query", NULL);
	const char *scheme = member_text(r, "scheme", NULL);
	uint64_t port = member_number(r, "port", 0);
	char where[24] = "";
	bool usual = scheme != NULL && ((port == 443 && strcmp(scheme, "https") == 0) ||
					(port == 80 && strcmp(scheme, "http") == 0) ||
					(port == 53 && strcmp(scheme, "dns") == 0));

	if (port != 0 && !usual)
		(void)snprintf(where, sizeof(where), ":%llu", (unsigned long long)port);
	if (strcmp(member_text(r, "kind", ""), "package") == 0)
		package_of(member_group(r, "package"), ret);
	else if (strcmp(member_text(r, "kind", ""), "request") == 0)
		(void)snprintf(ret, TARGET_TEXT_MAX, "%s://%s%s%s%s%s",
			       scheme == NULL ? "http" : scheme, name, where, path,
			       query == NULL ? "" : "?", query == NULL ? "" : query);
	else
		(void)snprintf(ret, TARGET_TEXT_MAX, "%s%s", name, where);
}

/* "fail": allowed, but it could not be done. Metadata of packages with hidden versions has a reason
 * for these, and was given. */
static const char *outcome(const json_t *r)
{
	if (member_text(r, "verdict", "?")[0] != 'a')
		return "deny";
	if (strcmp(member_text(member_group(r, "package"), "result", ""), "hidden") == 0)
		return "allow";
	return member_text(r, "reason", "")[0] == '\0' ? "allow" : "fail";
}

/* A member of `packages` as the document writes it, behind its layer: "session:packages.deny[0]".
 * Names of rules may hold spaces. */
static void print_rule(const char *rule)
{
	const char *member = strstr(rule, " packages.");
	char text[RULE_TEXT_MAX];
	size_t n = 0;

	for (; *rule != '\0' && n < sizeof(text) - 1; rule++)
		text[n++] = (char)(rule == member				  ? ':'
				   : (unsigned char)*rule <= ' ' || *rule == 0x7f ? '_'
										  : *rule);
	text[n] = '\0';
	show_text(text, stdout);
}

/* Time, outcome, kind, method, place, status, bytes, milliseconds, rule, execution, reason: one
 * line, and the same number of words before the reason, so that other programs can cut it. */
static void print_line(const json_t *r)
{
	const char *kind = member_text(r, "kind", "?");
	const char *rule = member_text(r, "rule", "-");
	uint64_t status = member_number(r, "status", 0);
	char place[TARGET_TEXT_MAX], bytes[24], code[24] = "-";

	target_of(r, place);
	units_format_bytes(member_number(r, "bytes_in", 0) + member_number(r, "bytes_out", 0),
			   bytes, sizeof(bytes));
	if (status != 0)
		(void)snprintf(code, sizeof(code), "%llu", (unsigned long long)status);
	show_text(member_text(r, "time", "-"), stdout);
	(void)printf(" %-5s %-7s ", outcome(r),
		     strcmp(kind, "dns") == 0	     ? "dns"
		     : strcmp(kind, "connect") == 0  ? "connect"
		     : strcmp(kind, "package") == 0  ? "package"
		     : strcmp(kind, "datagram") == 0 ? "datagram"
						     : "request");
	show_text(member_text(r, "method",
			      member_text(r, "type",
					  member_text(member_group(r, "package"), "kind", "-"))),
		  stdout);
	(void)putchar(' ');
	show_text(place, stdout);
	(void)printf(" %s %s %.1fms ", code, bytes, (double)member_number(r, "us", 0) / 1000);
	print_rule(rule);
	(void)putchar(' ');
	show_text(member_text(r, "execution_id", "-"), stdout);
	(void)putchar(' ');
	show_text(member_text(r, "reason",
			      json_is_true(json_object_get(r, "internal"))
				      ? "asked by Cordon, for a package"
				      : ""),
		  stdout);
	(void)putchar('\n');
}

static void print_record(const void *arg, const json_t *r)
{
	const struct fields *f = arg;

	if (f->common.json)
		show_json(r, false, stdout);
	else
		print_line(r);
}

static void choose(const struct fields *f, struct target *t)
{
	if (f->denied)
		target_query(t, "allowed", "false");
	if (f->kind != NULL)
		target_query(t, "kind", f->kind);
	if (f->name != NULL)
		target_query(t, "name", f->name);
	if (f->execution != NULL)
		target_query(t, "execution", f->execution);
}

/* Another policy, in place of its own. */
static int change(const struct fields *f, struct api_call *a, const char *id, struct err *e)
{
	OWN_JSON *body = json_object(), *answer = NULL;
	struct target t;

	if (compose_network(body, "network", &f->policy, &f->allow, e) < 0)
		return -1;
	id_match_target(&t, id, "network");
	if (api_call_json(a, "PUT", &t, json_object_get(body, "network"), &answer, e) < 0)
		return -1;
	if (f->common.json)
		show_json(answer, true, stdout);
	return 0;
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	struct follow_list l = { .member = "records", .print = print_record, .arg = &f };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = args_read(&verb_net, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, f.follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, &e) <
		    0 ||
	    id_match_session(&a, words.at[0], id, &e) < 0)
		return args_fail(&e);
	if (f.policy.n + f.allow.n > 0)
		return change(&f, &a, id, &e) < 0 ? args_fail(&e) : ARGS_OK;
	id_match_target(&t, id, "network");
	target_part(&t, "log");
	choose(&f, &t);
	l.follow = f.follow;
	l.after = f.after;
	return follow_list(&a, &t, &l, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_net = {
	.name = "net",
	.usage = "[options] SESSION",
	.summary = "Prints the network records of a session, or changes its network policy.",
	.text = "One line each: time, outcome (allow, deny, or fail: allowed, but it could not be "
		"done), kind,\n"
		"method (or type of DNS record), target, status, bytes, time it took, rule that "
		"decided, execution\n"
		"(or -: not known; --json has the reason), reason of a refusal or failure. With "
		"--policy or --allow\n"
		"the session gets another policy at once, and connections that it does not allow "
		"are cut.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
