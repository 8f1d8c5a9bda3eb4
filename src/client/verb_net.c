/* verb_net.c - what a session tried to reach. */
#include <stdio.h>
#include <string.h>

#include "follow.h"
#include "member.h"
#include "pick.h"
#include "show.h"
#include "show_json.h"
#include "units.h"
#include "verbs.h"

#define RECORDS_MAX 100000
#define PLACE_MAX 512

struct fields {
	struct args_common common;
	bool follow, denied;
	const char *kind, *name, *after;
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct fields, follow), 0, 0,
	  "waits for more, for ever", 'f' },
	{ "denied", NULL, OPTION_FLAG, offsetof(struct fields, denied), 0, 0,
	  "only what was refused" },
	{ "kind", "KIND", OPTION_TEXT, offsetof(struct fields, kind), 0, 0,
	  "only dns, connect or request" },
	{ "name", "HOST", OPTION_TEXT, offsetof(struct fields, name), 0, 0,
	  "only of this host" },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct fields, after), 0, 0,
	  "only those behind this one" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* As people write it: what was asked for, not what it became. */
static void place_of(const json_t *r, char ret[PLACE_MAX])
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
	if (strcmp(member_text(r, "kind", ""), "request") == 0)
		(void)snprintf(ret, PLACE_MAX, "%s://%s%s%s%s%s", scheme == NULL ? "http" : scheme,
			       name, where, path, query == NULL ? "" : "?",
			       query == NULL ? "" : query);
	else
		(void)snprintf(ret, PLACE_MAX, "%s%s", name, where);
}

/* Time, verdict, kind, method, place, status, bytes, milliseconds, rule, reason: one line, and the
 * same number of words before the reason, so that other programs can cut it. */
static void print_line(const json_t *r)
{
	const char *kind = member_text(r, "kind", "?");
	const char *rule = member_text(r, "rule", "-");
	uint64_t status = member_number(r, "status", 0);
	char place[PLACE_MAX], bytes[24], code[24] = "-";

	place_of(r, place);
	units_format_bytes(member_number(r, "bytes_in", 0) + member_number(r, "bytes_out", 0),
			   bytes, sizeof(bytes));
	if (status != 0)
		(void)snprintf(code, sizeof(code), "%llu", (unsigned long long)status);
	show_text(member_text(r, "time", "-"), stdout);
	(void)printf(" %-5s %-7s ", member_text(r, "verdict", "?")[0] == 'a' ? "allow" : "deny",
		     strcmp(kind, "dns") == 0	    ? "dns"
		     : strcmp(kind, "connect") == 0 ? "connect"
						    : "request");
	show_text(member_text(r, "method", member_text(r, "type", "-")), stdout);
	(void)putchar(' ');
	show_text(place, stdout);
	(void)printf(" %s %s %.1fms ", code, bytes, (double)member_number(r, "us", 0) / 1000);
	/* Names of rules may hold spaces. */
	for (; *rule != '\0'; rule++)
		(void)putchar((unsigned char)*rule <= ' ' || *rule == 0x7f ? '_' : *rule);
	(void)putchar(' ');
	show_text(member_text(r, "reason", ""), stdout);
	(void)putchar('\n');
}

static void print_record(const struct fields *f, const json_t *r)
{
	if (f->common.json)
		show_json(r, false, stdout);
	else
		print_line(r);
}

static int take(void *arg, const struct follow_event *event, struct err *e)
{
	(void)e;
	if (event->json != NULL)
		print_record(arg, event->json);
	(void)fflush(stdout);
	return ferror(stdout) ? 1 : 0;
}

static int print_records(const struct fields *f, struct ask *a, struct target *t, struct err *e)
{
	/* From the first one on, or the server would begin with now, and again after each break. */
	struct follow_options o = { .after = f->after == NULL ? "0" : f->after, .resumes = true };
	OWN_JSON *list = NULL;

	if (f->denied)
		target_query(t, "allowed", "false");
	if (f->kind != NULL)
		target_query(t, "kind", f->kind);
	if (f->name != NULL)
		target_query(t, "name", f->name);
	if (f->follow) {
		target_query(t, "follow", "true");
		return follow_events(a, t, &o, take, (void *)(uintptr_t)f, e);
	}
	if (ask_pages(a, t, "records", f->after, RECORDS_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *r = json_array_get(list, i);
		print_record(f, r);
	}
	return 0;
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_ASK a = { 0 };
	struct err e = { 0 };
	char id[PICK_ID_MAX];
	struct target t;
	int code = args_read(&verb_net, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (ask_open(&a, &f.common, f.follow ? ASK_STREAM_MS : ASK_PATIENCE_MS, &e) < 0 ||
	    pick_session(&a, words.at[0], id, &e) < 0)
		return args_fail(&e);
	pick_target(&t, id, "network");
	target_part(&t, "log");
	return print_records(&f, &a, &t, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_net = {
	.name = "net",
	.usage = "[options] SESSION",
	.summary = "Prints what a session tried to reach.",
	.text = "One line each: time, verdict, kind, method (or type of a name's record), place, "
		"status,\n"
		"bytes, time it took, rule that decided, reason of a refusal.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
