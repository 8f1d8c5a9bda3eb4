/* verb_logs.c - cordon logs: prints the output of an execution that runs or has ended.
 *
 * Without --follow the two streams are fetched as raw bytes, each to its own descriptor. If stdout
 * and stderr are the same file they are fetched as one, in the order in which they were written. */
#include <string.h>
#include <sys/stat.h>

#include "cmd/client/code_results.h"
#include "cmd/client/exec.h"
#include "cmd/client/follow.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/base64.h"
#include "lib/base/io.h"

/* ---- cordon events and cordon watch: records of sessions, and changes of files in one session as
 * they happen. */

/* The fields of events and watch. */
struct verb_events_fields {
	struct args_common common;
	bool follow;
	const char *after, *user;
};

/* clang-format off */
static const struct option events_options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct verb_events_fields, follow), 0, 0,
	  "waits for new events", 'f' },
	{ "after", "NUMBER", OPTION_TEXT, offsetof(struct verb_events_fields, after), 0, 0,
	  "only events after this number" },
	ARGS_COMMON(struct verb_events_fields),
};

static const struct option watch_options[] = {
	{ "user", "NAME", OPTION_TEXT, offsetof(struct verb_events_fields, user), 0, 0,
	  "user that watches (default: user)", 'u' },
	ARGS_COMMON(struct verb_events_fields),
};
/* clang-format on */

/* With --json the server's object. Otherwise words in a fixed order, "-" for a missing one, and
 * the details as JSON. */
static void verb_events_print_event(const void *arg, const json_t *event)
{
	const struct verb_events_fields *f = arg;
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

/* Events of the tenant or of one session. Past events come as pages, new ones as a stream, from
 * the same position. */
static int run_events(int argc, char **argv)
{
	static struct verb_events_fields f;
	static struct args_words words;
	struct follow_list l = { .member = "events", .print = verb_events_print_event, .arg = &f };
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
		return args_refused(&verb_events, &e);
	target_init(&t, "/v1/events");
	if (words.n > 0) {
		if (id_match_session(&a, words.at[0], id, &e) < 0)
			return args_refused(&verb_events, &e);
		id_match_target(&t, id, "events");
	}
	return follow_list(&a, &t, &l, &e) < 0 ? args_refused(&verb_events, &e) : ARGS_OK;
}

const struct verb verb_events = {
	.name = "events",
	.usage = "[options] [SESSION]",
	.summary = "Prints events of the tenant, or of one session.",
	.text = "One line for each event: number, time, type, session, execution, details.\n",
	.examples = "cordon events --follow\n"
		    "cordon events ID --json\n",
	.options = events_options,
	.noptions = COUNT(events_options),
	.run = run_events,
};

/* "ready" says that the watch has begun. It is of use to programs only. */
static int take_change(void *arg, const struct follow_event *event, struct err *e)
{
	const struct verb_events_fields *f = arg;

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

/* A watch cannot be continued, since changes during a break are lost. So a lost connection is an
 * error and not a reconnection. */
static int logs_watch(const struct verb_events_fields *f, const struct args_words *words,
		      struct err *e)
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
	static struct verb_events_fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_watch, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	return logs_watch(&f, &words, &e) < 0 ? args_refused(&verb_watch, &e) : ARGS_OK;
}

const struct verb verb_watch = {
	.name = "watch",
	.usage = "[options] SESSION [PATH]",
	.summary = "Prints changes of files in a session as they happen.",
	.text = "One line for each change: create, write, remove, rename or chmod, and the path "
		"below\n"
		"PATH (default: the home of the user). overflow: some changes were missed.\n",
	.examples = "cordon watch ID /home/user/project\n",
	.options = watch_options,
	.noptions = COUNT(watch_options),
	.run = run_watch,
};

struct logs_fields {
	struct args_common common;
	bool follow;
	const char *stream;
	bool exited; /* while following: it was reported */
};

/* clang-format off */
static const struct option options[] = {
	{ "follow", NULL, OPTION_FLAG, offsetof(struct logs_fields, follow), 0, 0,
	  "waits for more until the command has ended", 'f' },
	{ "stream", "NAME", OPTION_TEXT, offsetof(struct logs_fields, stream), 0, 0,
	  "stdout, stderr or result (of code) only", .values = "stdout stderr result" },
	ARGS_COMMON(struct logs_fields),
};
/* clang-format on */

/* To the descriptor in arg. */
static int on_data(void *arg, const void *data, size_t len, struct err *e)
{
	return io_write_all(*(const int *)arg, data, len, e);
}

/* The stored bytes of one stream. "both" has them in the order of their arrival. */
static int logs_fetch(struct api_call *a, const char *session, const char *id, const char *stream,
		      int fd, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct target t;

	id_match_execution_target(&t, session, id, "output");
	target_query(&t, "stream", stream);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	return client_read_each(a->client, on_data, &fd, e);
}

static int on_results(void *arg, const void *data, size_t len, struct err *e)
{
	return code_results_take(arg, data, len, e);
}

/* The texts of results, if it is code: as `exec --lang` prints them. */
static int print_results(struct api_call *a, const char *session, const char *id, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct code_results results;
	struct target t;
	int code;

	id_match_execution_target(&t, session, id, "output");
	target_query(&t, "stream", "result");
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	code_results_init(&results, NULL, false);
	code = client_read_each(a->client, on_results, &results, e);
	code_results_release(&results);
	return code;
}

/* Two descriptors of one terminal or file are the same file, and separate streams would lose
 * their order there. */
static bool same_file(int one, int other)
{
	struct stat a, b;

	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Output first, results last: the stored streams have no common order. */
static int print_all(struct api_call *a, const struct logs_fields *f, const char *session,
		     const char *id, struct err *e)
{
	if (f->stream != NULL)
		return logs_fetch(a, session, id, f->stream, STDOUT_FILENO, e);
	if (same_file(STDOUT_FILENO, STDERR_FILENO)) {
		if (logs_fetch(a, session, id, "both", STDOUT_FILENO, e) < 0)
			return -1;
	} else if (logs_fetch(a, session, id, "stdout", STDOUT_FILENO, e) < 0 ||
		   logs_fetch(a, session, id, "stderr", STDERR_FILENO, e) < 0) {
		return -1;
	}
	return print_results(a, session, id, e);
}

/* Text as it is, other bytes decoded from base64. */
static int write_event(const struct follow_event *event, int fd, struct err *e)
{
	const json_t *text = json_object_get(event->json, "text");
	const char *coded = member_text(event->json, "base64", NULL);
	ssize_t n;

	if (json_is_string(text))
		return io_write_all(fd, json_string_value(text), json_string_length(text), e);
	if (coded == NULL)
		return 0;
	OWN_MEM uint8_t *bytes = malloc(BASE64_BYTES(strlen(coded)) + 1);
	n = bytes == NULL ? -1 : base64_decode(coded, strlen(coded), bytes);
	if (n < 0)
		return err_set(e, ERR_SYSTEM, "the server sent output that cannot be decoded");
	return io_write_all(fd, bytes, (size_t)n, e);
}

/* An event has the name of its stream. "exit" may come before the last output, so it only marks
 * that the end of the stream is the end. */
static int print_event(void *arg, const struct follow_event *event, struct err *e)
{
	struct logs_fields *f = arg;
	bool is_err = strcmp(event->name, "stderr") == 0;

	f->exited |= strcmp(event->name, "exit") == 0 &&
		     exec_has_ended(json_object_get(event->json, "execution"));
	if (f->common.json) {
		OWN_JSON *line =
			json_pack("{s:s, s:O?}", "event", event->name, "data", event->json);

		show_json(line, false, stdout);
		(void)fflush(stdout);
	} else if (is_err || strcmp(event->name, "stdout") == 0 ||
		   (f->stream != NULL && strcmp(event->name, f->stream) == 0)) {
		if (f->stream != NULL && strcmp(event->name, f->stream) != 0)
			return 0;
		if (write_event(event, is_err && f->stream == NULL ? STDERR_FILENO : STDOUT_FILENO,
				e) < 0)
			return -1;
	}
	return 0;
}

/* The id of the execution is found first, also for one that has ended. */
static int verb_logs_logs(struct logs_fields *f, const struct args_words *words, struct err *e)
{
	OWN_API_CALL a = { 0 };
	char session[ID_MATCH_ID_MAX], id[ID_MATCH_ID_MAX];
	struct follow_options o = { .resumes = true, .complete = &f->exited };
	struct target t;

	if (api_call_open(&a, &f->common, f->follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, e) <
		    0 ||
	    id_match_session(&a, words->at[0], session, e) < 0 ||
	    id_match_execution(&a, session, words->n > 1 ? words->at[1] : NULL, id, e) < 0)
		return -1;
	if (!f->follow)
		return print_all(&a, f, session, id, e);
	id_match_execution_target(&t, session, id, "events");
	return follow_events(&a, &t, &o, print_event, f, e);
}

/* --json without --follow would have no object to print: the answer is bytes. */
static int logs_run(int argc, char **argv)
{
	static struct logs_fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_logs, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	if (f.stream != NULL && strcmp(f.stream, "stdout") != 0 &&
	    strcmp(f.stream, "stderr") != 0 && strcmp(f.stream, "result") != 0)
		return args_wrong(&verb_logs,
				  "--stream: '%.40s' is neither stdout, stderr nor result",
				  f.stream);
	if (f.common.json && !f.follow)
		return args_wrong(&verb_logs, "--json needs --follow; without it there are bytes");
	return verb_logs_logs(&f, &words, &e) < 0 ? args_refused(&verb_logs, &e) : ARGS_OK;
}

const struct verb verb_logs = {
	.name = "logs",
	.usage = "[options] SESSION [EXECUTION]",
	.summary = "Prints the output of a command, also after its end.",
	.text = "The command's stderr is printed to stderr; of code, the texts of its results come "
		"last.\n"
		"cordon ls SESSION lists executions; without EXECUTION it is the last one that was "
		"started.\n",
	.examples = "cordon logs ID                              # output of the last command\n"
		    "cordon logs --follow --stream stderr ID EXECUTION\n",
	.options = options,
	.noptions = COUNT(options),
	.run = logs_run,
};
