/* verb_trace.c - cordon trace: prints which programs of a session started and ended, and with
 * other kinds of traces its calls and files. One entry is one line, in the order of the server's
 * numbers. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/follow.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

struct trace_fields {
	struct args_common common;
	bool follow;
	const char *after;
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct trace_fields, follow), 0, 0,
	  "waits for new entries", 'f' },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct trace_fields, after), 0, 0,
	  "only entries after this number" },
	ARGS_COMMON(struct trace_fields),
};
/* clang-format on */

/* Words of a program's command line are untrusted, like all texts of a record. */
static void print_words(const json_t *list)
{
	size_t i;
	json_t *word;

	json_array_foreach(list, i, word)
	{
		(void)putchar(' ');
		show_text(json_string_value(word), stdout);
	}
}

/* Without a signal and an exit code the program was killed. */
static void print_end(const json_t *r)
{
	if (json_is_integer(json_object_get(r, "signal")))
		(void)printf("signal %llu", (unsigned long long)member_number(r, "signal", 0));
	else if (json_is_integer(json_object_get(r, "exit_code")))
		(void)printf("exit %llu", (unsigned long long)member_number(r, "exit_code", 0));
	else
		(void)printf("killed");
}

/* The columns before the path have fixed widths. "(claimed)" marks what a call asked for. The
 * kernel may have refused the call. */
static void print_line(const json_t *r)
{
	uint64_t lost = member_number(r, "lost", 0);
	bool claimed = strcmp(member_text(r, "source", ""), "claimed") == 0;
	bool starts = strcmp(member_text(r, "kind", ""), "exec") == 0;
	bool calls = strcmp(member_text(r, "kind", ""), "call") == 0;
	bool files = strcmp(member_text(r, "kind", ""), "file") == 0;

	if (lost > 0)
		(void)printf("(%llu entries lost)\n", (unsigned long long)lost);
	show_text(member_text(r, "time", "-"), stdout);
	(void)printf(" %s %7llu %7llu %5llu ",
		     starts  ? "exec"
		     : calls ? "call"
		     : files ? "file"
			     : "exit",
		     (unsigned long long)member_number(r, "pid", 0),
		     (unsigned long long)member_number(r, "parent", 0),
		     (unsigned long long)member_number(r, "uid", 0));
	if (starts) {
		show_text(member_text(r, "path", "?"), stdout);
		print_words(json_object_get(r, "argv"));
	} else if (files) {
		show_text(member_text(r, "path", "?"), stdout);
		print_words(json_object_get(r, "access"));
		(void)printf(" x%llu ", (unsigned long long)member_number(r, "times", 0));
		show_text(member_text(r, "file", "?"), stdout);
		if (json_is_string(json_object_get(r, "to"))) {
			(void)printf(" to ");
			show_text(member_text(r, "to", "?"), stdout);
		}
	} else if (calls) {
		show_text(member_text(r, "path", "?"), stdout);
		(void)putchar(' ');
		show_text(member_text(r, "call", "?"), stdout);
		print_words(json_object_get(r, "arguments"));
	} else {
		print_end(r);
	}
	(void)printf("%s\n", claimed ? " (claimed)" : "");
}

/* With --json the entry as the server sent it, one in a line. */
static void print_entry(const void *arg, const json_t *r)
{
	const struct trace_fields *f = arg;

	if (f->common.json)
		show_json(r, false, stdout);
	else
		print_line(r);
}

/* Entries come as the server has them. Those that were lost are told by the entry behind them. */
static int verb_trace_run(int argc, char **argv)
{
	static struct trace_fields f;
	static struct args_words words;
	struct follow_list l = { .member = "entries", .print = print_entry, .arg = &f };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = args_read(&verb_trace, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, f.follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, &e) <
		    0 ||
	    id_match_session(&a, words.at[0], id, &e) < 0)
		return args_refused(&verb_trace, &e);
	id_match_target(&t, id, "trace");
	l.follow = f.follow;
	l.after = f.after;
	return follow_list(&a, &t, &l, &e) < 0 ? args_refused(&verb_trace, &e) : ARGS_OK;
}

const struct verb verb_trace = {
	.name = "trace",
	.usage = "[options] SESSION",
	.summary = "Prints the trace of a session: its programs, their calls, or the files they "
		   "opened.",
	.text = "The session must be created with --trace programs, calls or files. One line each: "
		"time, kind,\n"
		"process, parent, user, then the program and its arguments, how it ended, or the "
		"file.\n"
		"(claimed) is what a call asked for.\n",
	.examples = "id=$(cordon create --trace programs)\n"
		    "cordon trace --follow $id\n"
		    "cordon create --trace files\n",
	.options = options,
	.noptions = COUNT(options),
	.run = verb_trace_run,
};
