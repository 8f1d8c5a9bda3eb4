/* verb_timeline.c - cordon timeline: prints everything that happened in a session, in order.
 *
 * The server merges the lists into one (api_timeline.c). This file prints entries, one a line, as
 * they come. --follow keeps the request open for new ones. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/base/colour.h"
#include "cmd/client/follow.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

struct timeline_fields {
	struct args_common common;
	bool follow;
	const char *types, *after;
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct timeline_fields, follow), 0, 0,
	  "waits for new entries", 'f' },
	{ "types", "KIND,...", OPTION_TEXT, offsetof(struct timeline_fields, types), 0, 0,
	  "only session, execution, output, file, network, dns, package, resource, approval, alarm",
	  .values = "session execution output file network dns package resource approval alarm" },
	{ "after", "CURSOR", OPTION_TEXT, offsetof(struct timeline_fields, after), 0, 0,
	  "only entries after this one (member cursor of --json)" },
	ARGS_COMMON(struct timeline_fields),
};
/* clang-format on */

/* The time of the day is enough on a terminal. */
static void print_time(const json_t *v)
{
	const char *time = member_text(v, "time", "-"), *clock = strchr(time, 'T');
	char text[32];

	if (isatty(STDOUT_FILENO) != 1) {
		show_text(time, stdout);
		return;
	}
	(void)show_escape(clock == NULL ? time : clock + 1, text, 13);
	(void)printf("%-12s", text);
}

/* The colours of `cordon replay`, where an entry without severity is faint. */
static enum colour colour_of(const char *severity)
{
	return strcmp(severity, "alarm") == 0	  ? COLOUR_BAD
	       : strcmp(severity, "warning") == 0 ? COLOUR_WARN
						  : COLOUR_NONE;
}

/* Time, severity, kind, execution, title. The same form for pages and streams. Columns have
 * fixed widths, since a stream has no end to measure. */
static void print_entry(const void *arg, const json_t *v)
{
	const struct timeline_fields *f = arg;
	const char *severity = member_text(v, "severity", "?"), *kind = member_text(v, "kind", "?");

	if (f->common.json) {
		show_json(v, false, stdout);
		return;
	}
	print_time(v);
	(void)printf(" %s", colour(stdout, colour_of(severity)));
	show_text(severity, stdout);
	(void)printf("%*s%s ", strlen(severity) < 7 ? (int)(7 - strlen(severity)) : 0, "",
		     colour(stdout, COLOUR_NONE));
	show_text(kind, stdout);
	(void)printf("%*s ", strlen(kind) < 9 ? (int)(9 - strlen(kind)) : 0, "");
	show_text(member_text(v, "execution_id", "-"), stdout);
	(void)putchar(' ');
	show_text(member_text(v, "title", ""), stdout);
	(void)putchar('\n');
}

/* Pages of 1000 without --follow. Cursors are texts of the server. */
static int timeline_run(int argc, char **argv)
{
	static struct timeline_fields f;
	static struct args_words words;
	struct follow_list l = { .member = "entries", .print = print_entry, .arg = &f };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = args_read(&verb_timeline, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, f.follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, &e) <
		    0 ||
	    id_match_session(&a, words.at[0], id, &e) < 0)
		return args_refused(&verb_timeline, &e);
	id_match_target(&t, id, "timeline");
	target_query(&t, "types", f.types);
	if (!f.follow)
		target_query_number(&t, "limit", 1000);
	l.follow = f.follow;
	l.after = f.after;
	return follow_list(&a, &t, &l, &e) < 0 ? args_refused(&verb_timeline, &e) : ARGS_OK;
}

const struct verb verb_timeline = {
	.name = "timeline",
	.usage = "[options] SESSION",
	.summary = "Prints everything that happened in a session, in the order of time.",
	.text = "One line each: time, severity (info, warning, alarm), kind, execution (or -), "
		"title. "
		"Executions,\n"
		"their output, changed files, network, packages, states of the session and the "
		"resources that it\n"
		"used, also after its end. Control characters from the session are shown as "
		"\\x1b.\n",
	.examples = "cordon timeline ID\n"
		    "cordon timeline -f --types execution,network,alarm ID\n",
	.options = options,
	.noptions = COUNT(options),
	.run = timeline_run,
};
