/* verb_net.c - cordon net: prints the network records of a session, or changes its policy.
 *
 * A record is one line with a fixed number of words before its reason, for programs that cut it. On
 * a terminal the form is another one, for people: headings, and known facts only. Text of a record
 * comes from a session, so show_text() prints it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/base/colour.h"
#include "cmd/client/compose.h"
#include "cmd/client/follow.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/units.h"

#define TARGET_TEXT_MAX 512
#define RULE_TEXT_MAX 512

struct net_fields {
	struct args_common common;
	bool follow, denied;
	const char *kind, *name, *execution, *after;
	/* The fields of both uses: the filters of a list, or the options of a new policy. */
	struct option_list policy, allow;
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct net_fields, follow), 0, 0,
	  "waits for new records", 'f' },
	{ "denied", NULL, OPTION_FLAG, offsetof(struct net_fields, denied), 0, 0,
	  "only refused attempts" },
	{ "kind", "KIND", OPTION_TEXT, offsetof(struct net_fields, kind), 0, 0,
	  "only dns, connect, request, package or datagram", .values = "dns connect request package datagram" },
	{ "name", "HOST", OPTION_TEXT, offsetof(struct net_fields, name), 0, 0,
	  "only records of this host" },
	{ "execution", "ID", OPTION_TEXT, offsetof(struct net_fields, execution), 0, 0,
	  "only records of this execution" },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct net_fields, after), 0, 0,
	  "only records after this number" },
	{ "policy", "FILE|PRESET,...", OPTION_LIST, offsetof(struct net_fields, policy), 0, 0,
	  "replaces its policy: a JSON file, or presets (none: nothing allowed)", .values = "@presets" },
	{ "allow", "HOST[:PORT][/PATH]", OPTION_LIST, offsetof(struct net_fields, allow), 0, 0,
	  "replaces its policy: this host, and what --policy allows" },
	ARGS_COMMON(struct net_fields),
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

/* The target as requested, not as resolved. The usual port of a scheme is left out. Texts are
 * cut at TARGET_TEXT_MAX. */
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
static const char *verb_net_outcome(const json_t *r)
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

/* Kinds of a newer server look like requests. */
static const char *kind_of(const json_t *r)
{
	static const char *const kinds[] = { "dns", "connect", "package", "datagram" };
	const char *kind = member_text(r, "kind", "?");

	for (size_t i = 0; i < COUNT(kinds); i++)
		if (strcmp(kinds[i], kind) == 0)
			return kinds[i];
	return "request";
}

/* "-" if nothing fits. It is the type of a question, the method of a request, or the kind of a
 * package's file. */
static const char *method_of(const json_t *r)
{
	const char *of_package = member_text(member_group(r, "package"), "kind", "-");

	return member_text(r, "method", member_text(r, "type", of_package));
}

/* Requests that Cordon made for a package have no reason of their own. */
static const char *reason_of(const json_t *r)
{
	bool internal = json_is_true(json_object_get(r, "internal"));

	return member_text(r, "reason", internal ? "asked by Cordon, for a package" : "");
}

/* Time, outcome, kind, method, place, status, bytes, milliseconds, rule, execution, reason: one
 * line, and the same number of words before the reason, so that other programs can cut it. */
static void print_line(const json_t *r)
{
	const char *rule = member_text(r, "rule", "-");
	uint64_t status = member_number(r, "status", 0);
	char place[TARGET_TEXT_MAX], bytes[24], code[24] = "-";

	target_of(r, place);
	units_format_bytes(member_number(r, "bytes_in", 0) + member_number(r, "bytes_out", 0),
			   bytes, sizeof(bytes));
	if (status != 0)
		(void)snprintf(code, sizeof(code), "%llu", (unsigned long long)status);
	show_text(member_text(r, "time", "-"), stdout);
	(void)printf(" %-5s %-7s ", verb_net_outcome(r), kind_of(r));
	show_text(method_of(r), stdout);
	(void)putchar(' ');
	show_text(place, stdout);
	(void)printf(" %s %s %.1fms ", code, bytes, (double)member_number(r, "us", 0) / 1000);
	print_rule(rule);
	(void)putchar(' ');
	show_text(member_text(r, "execution_id", "-"), stdout);
	(void)putchar(' ');
	show_text(reason_of(r), stdout);
	(void)putchar('\n');
}

/* ---- on a terminal: headings, and only given facts */

#define PERSON_HEADS "TIME          OUTCOME  KIND      METHOD   TARGET"
#define PERSON_TARGET 44

/* "200, 1.2K, 83.1ms, rule pypi, exe_1": the known parts. */
static void print_result(const json_t *r)
{
	uint64_t status = member_number(r, "status", 0), us = member_number(r, "us", 0);
	uint64_t bytes = member_number(r, "bytes_in", 0) + member_number(r, "bytes_out", 0);
	const char *rule = member_text(r, "rule", NULL), *between = "";
	char text[32];

	if (status != 0) {
		(void)printf("%llu", (unsigned long long)status);
		between = ", ";
	}
	if (bytes != 0) {
		units_format_bytes(bytes, text, sizeof(text));
		(void)printf("%s%s", between, text);
		between = ", ";
	}
	if (us != 0) {
		(void)printf("%s%.1fms", between, (double)us / 1000);
		between = ", ";
	}
	if (rule != NULL) {
		(void)printf("%srule ", between);
		print_rule(rule);
	}
}

/* One line for people: the time of day, a colour for the outcome, a column of fixed width for
 * the target, and then the known facts. */
static void print_for_person(const json_t *r)
{
	const char *time = member_text(r, "time", "-"), *clock = strchr(time, 'T');
	const char *what = verb_net_outcome(r), *reason = reason_of(r);
	char place[TARGET_TEXT_MAX], shown[TARGET_TEXT_MAX], method[32], at[32];

	target_of(r, place);
	size_t width = show_escape(place, shown, sizeof(shown));

	(void)show_escape(clock == NULL ? time : clock + 1, at, 13);
	(void)show_escape(method_of(r), method, sizeof(method));
	(void)printf("%-12s  %s%-7s%s  %-8s  %-7s  %s%*s  ", at,
		     colour(stdout, strcmp(what, "deny") == 0	? COLOUR_BAD
				    : strcmp(what, "fail") == 0 ? COLOUR_WARN
								: COLOUR_GOOD),
		     what, colour(stdout, COLOUR_NONE), kind_of(r), method, shown,
		     width < PERSON_TARGET ? (int)(PERSON_TARGET - width) : 0, "");
	if (strcmp(what, "deny") != 0)
		print_result(r);
	if (*reason != '\0') {
		(void)fputs(strcmp(what, "deny") == 0 ? "" : "  ", stdout);
		show_text(reason, stdout);
	}
	(void)putchar('\n');
}

/* The form depends on the output and not on an option, so a pipe always gets the form that
 * programs cut. */
static void print_record(const void *arg, const json_t *r)
{
	static bool has_heads;
	const struct net_fields *f = arg;

	if (f->common.json) {
		show_json(r, false, stdout);
		return;
	}
	if (isatty(STDOUT_FILENO) != 1) {
		print_line(r);
		return;
	}
	if (!has_heads)
		(void)printf("%s%*s  RESULT\n", PERSON_HEADS,
			     (int)(PERSON_TARGET - strlen("TARGET")), "");
	has_heads = true;
	print_for_person(r);
}

/* Each filter is a part of the query. */
static void net_choose(const struct net_fields *f, struct target *t)
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
static int net_change(const struct net_fields *f, struct api_call *a, const char *id, struct err *e)
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

/* --policy and --allow change the session and print nothing else. All other options are filters
 * of the list. */
static int net_run(int argc, char **argv)
{
	static struct net_fields f;
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
		return args_refused(&verb_net, &e);
	if (f.policy.n + f.allow.n > 0)
		return net_change(&f, &a, id, &e) < 0 ? args_refused(&verb_net, &e) : ARGS_OK;
	id_match_target(&t, id, "network");
	target_part(&t, "log");
	net_choose(&f, &t);
	l.follow = f.follow;
	l.after = f.after;
	return follow_list(&a, &t, &l, &e) < 0 ? args_refused(&verb_net, &e) : ARGS_OK;
}

const struct verb verb_net = {
	.name = "net",
	.usage = "[options] SESSION",
	.summary = "Prints the network records of a session, or changes its network policy.",
	.text = "One line each: time, outcome (allow, deny, or fail: allowed, but it could not be "
		"done), kind,\n"
		"method (or type of DNS record), target, status, bytes, time it took, rule that "
		"decided, execution\n"
		"(or -: not known; --json has the reason), reason of a refusal or failure. On a "
		"terminal there are\n"
		"headings, and only what a record has; for programs the form above stays.\n"
		"With --policy or --allow the session gets another policy at once, and "
		"connections that it does\n"
		"not allow are cut.\n",
	.examples = "cordon net --denied ID\n"
		    "cordon net --follow --kind request ID\n"
		    "cordon net --allow pypi.org ID              # another policy\n",
	.options = options,
	.noptions = COUNT(options),
	.run = net_run,
};
