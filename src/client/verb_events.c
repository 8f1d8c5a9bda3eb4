/* verb_events.c - cordon events and cordon watch: records of what happened to sessions, and changes
 * of files in one session as they happen. */
#include <string.h>

#include "follow.h"
#include "member.h"
#include "id_match.h"
#include "show.h"
#include "show_json.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	bool follow;
	const char *after, *user;
};

/* clang-format off */
static const struct option events_options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct fields, follow), 0, 0,
	  "waits for new events", 'f' },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct fields, after), 0, 0,
	  "only events after this number" },
	ARGS_COMMON(struct fields),
};

static const struct option watch_options[] = {
	{ "user", "NAME", OPTION_TEXT, offsetof(struct fields, user), 0, 0,
	  "user that watches (default: user)", 'u' },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static void print_event(const void *arg, const json_t *event)
{
	const struct fields *f = arg;
	static const char *const words[] = { "time", "type", "session_id", "execution_id" };
	const json_t *data = json_object_get(event, "data");

	if (f->common.json) {
		show_json(event, false, stdout);
		return;
	}
	(void)printf("%llu", (unsigned long long)member_number(event, "seq", 0));
	for (size_t i = 0; i < COUNT(words); i++) {
		(void)putchar(' ');
		show_text(member_text(event, words[i], "-"), stdout);
	}
	(void)putchar(' ');
	if (json_object_size(data) > 0)
		show_json(data, false, stdout);
	else
		(void)putchar('\n');
}

static int run_events(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	struct follow_list l = { .member = "events", .print = print_event, .arg = &f };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = args_read(&verb_events, argc, argv, &f, &words, 0, 1);

	if (code != ARGS_GO)
		return code;
	l.follow = f.follow;
	l.after = f.after;
	if (api_call_open(&a, &f.common, f.follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, &e) <
	    0)
		return args_fail(&e);
	target_init(&t, "/v1/events");
	if (words.n > 0) {
		if (id_match_session(&a, words.at[0], id, &e) < 0)
			return args_fail(&e);
		id_match_target(&t, id, "events");
	}
	return follow_list(&a, &t, &l, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_events = {
	.name = "events",
	.usage = "[options] [SESSION]",
	.summary = "Prints events of the tenant, or of one session.",
	.text = "One line for each event: number, time, type, session, execution, details.\n",
	.options = events_options,
	.noptions = COUNT(events_options),
	.run = run_events,
};

static int take_change(void *arg, const struct follow_event *event, struct err *e)
{
	const struct fields *f = arg;

	(void)e;
	if (f->common.json) {
		OWN_JSON *line =
			json_pack("{s:s, s:O?}", "event", event->name, "data", event->json);

		show_json(line, false, stdout);
	} else if (strcmp(event->name, "ready") == 0) {
		return 0;
	} else {
		show_text(event->name, stdout);
		(void)putchar(' ');
		show_text(member_text(event->json, "path", ""), stdout);
		(void)putchar('\n');
	}
	(void)fflush(stdout);
	return ferror(stdout) ? 1 : 0;
}

static int watch(const struct fields *f, const struct args_words *words, struct err *e)
{
	OWN_API_CALL a = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct follow_options o = { .resumes = false };
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_STREAM_MS, e) < 0 ||
	    id_match_session(&a, words->at[0], id, e) < 0)
		return -1;
	id_match_target(&t, id, "files");
	target_part(&t, "watch");
	target_query(&t, "path", words->n > 1 ? words->at[1] : ".");
	target_query(&t, "recursive", "true");
	target_query(&t, "user", f->user);
	return follow_events(&a, &t, &o, take_change, (void *)(uintptr_t)f, e);
}

static int run_watch(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_watch, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	return watch(&f, &words, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_watch = {
	.name = "watch",
	.usage = "[options] SESSION [PATH]",
	.summary = "Prints changes of files in a session as they happen.",
	.text = "One line for each change: create, write, remove, rename or chmod, and the path "
		"below\n"
		"PATH (default: the home of the user). overflow: some changes were missed.\n",
	.options = watch_options,
	.noptions = COUNT(watch_options),
	.run = run_watch,
};
