/* verb_replay.c - cordon cast and cordon replay: what executions wrote, as it came.
 *
 * A replay reads the timeline of the session page by page. Where an execution starts it fetches
 * its recording (asciicast v2), whole: the server bounds it by the output that it keeps. Then it
 * plays the first in time, the next entry of the timeline or the next event of a recording. The
 * recordings are what programs in the session wrote, and a terminal interprets them as it did
 * then. A person who replays a hostile session should use a terminal without dangerous answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/base/colour.h"
#include "cmd/client/api_call.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/verbs.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

#define RECORDING_MAX (256U << 20) /* bytes of one */
#define RECORDINGS_MAX 64	   /* at a time: a session runs fewer at once */
#define PAGE 1000
#define IDLE_MS 2000
#define SPEED 1000 /* thousandths */

/* ---- cordon cast */

struct cast_fields {
	struct args_common common;
};

static const struct option cast_options[] = { ARGS_COMMON(struct cast_fields) };

/* The recording goes out as it arrives. Its form is the server's. */
static int on_data(void *arg, const void *data, size_t len, struct err *e)
{
	return io_write_all(STDOUT_FILENO, data, len, e);
}

/* Begin the request. The caller reads the body. */
static int request_cast(struct api_call *a, const char *session, const char *id, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct target t;

	id_match_execution_target(&t, session, id, "cast");
	return api_call_send(a, &r, &t, e);
}

static int replay_cast(const struct cast_fields *f, const struct args_words *words, struct err *e)
{
	char session[ID_MATCH_ID_MAX], id[ID_MATCH_ID_MAX];
	OWN_API_CALL a = { 0 };

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, words->at[0], session, e) < 0 ||
	    id_match_execution(&a, session, words->n > 1 ? words->at[1] : NULL, id, e) < 0 ||
	    request_cast(&a, session, id, e) < 0)
		return -1;
	return client_read_each(a.client, on_data, NULL, e);
}

static int run_cast(int argc, char **argv)
{
	static struct cast_fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_cast, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	return replay_cast(&f, &words, &e) < 0 ? args_refused(&verb_cast, &e) : ARGS_OK;
}

const struct verb verb_cast = {
	.name = "cast",
	.usage = "[options] SESSION [EXECUTION]",
	.summary =
		"Prints the recording of a command's terminal (asciicast v2), also after its end.",
	.text = "Players such as asciinema read it. It has the output with its times, the sizes of "
		"the terminal,\n"
		"and the input if the command was started with --record-input. Without "
		"EXECUTION it is the last one\n"
		"that was started. Of a command without a terminal it is what it wrote.\n",
	.examples = "cordon cast ID EXECUTION > work.cast && asciinema play work.cast\n",
	.options = cast_options,
	.noptions = COUNT(cast_options),
	.run = run_cast,
};

/* ---- cordon replay */

/* The options of a replay. */
struct replay_fields {
	struct args_common common;
	uint64_t speed, idle_ms; /* speed: thousandths */
	bool all;
};

/* clang-format off */
static const struct option replay_options[] = {
	{ "speed", "N", OPTION_MILLIS, offsetof(struct replay_fields, speed), 1, 1000000000,
	  "how many times as fast as it was (default 1), such as 8 or 0.5" },
	{ "idle", "TIME", OPTION_TIME, offsetof(struct replay_fields, idle_ms), 0, 3600000,
	  "the longest pause in which nothing happens (default 2s)" },
	{ "all", NULL, OPTION_FLAG, offsetof(struct replay_fields, all), 0, 0,
	  "also shows what was allowed on the network, and the resources used" },
	ARGS_COMMON(struct replay_fields),
};
/* clang-format on */

/* One execution's recording, whole in memory. Its lines are events in the order of time. event
 * is the next one to play, and a recording without one is dropped. */
struct replay_recording {
	char id[ID_MATCH_ID_MAX];
	int64_t begin_ms;
	struct buf text; /* owned. The rest of it from `at` */
	size_t at;
	json_t *event; /* owned: the next one. NULL: none left */
	bool tty;
};

/* The state of one replay. Two sources advance side by side: the timeline, in pages, and the
 * recordings of executions that run at this moment of the session. now_ms is the moment that the
 * screen shows. */
struct replay {
	const struct replay_fields *fields;
	struct api_call *api;
	const char *session;
	json_t *page; /* owned */
	size_t next;
	char after[256]; /* "": no page follows */
	struct replay_recording *recordings[RECORDINGS_MAX];
	unsigned n;
	int64_t now_ms;		    /* of the session. 0: not begun */
	char last[ID_MATCH_ID_MAX]; /* the execution whose output was printed */
	bool in_line;		    /* the last output did not end its line */
	bool any_tty;
};

/* The next event of a recording, past those that a replay does not show. "o" is output, "m" a
 * mark such as a cut. Input and changes of size are skipped. */
static void next_event(struct replay_recording *k)
{
	json_decref(k->event);
	k->event = NULL;
	while (k->event == NULL && k->at < k->text.len) {
		const char *line = (const char *)k->text.data + k->at;
		const char *end = memchr(line, '\n', k->text.len - k->at);
		size_t n = end == NULL ? k->text.len - k->at : (size_t)(end - line);
		json_t *j = json_loadb(line, n, 0, NULL);
		const char *kind = json_string_value(json_array_get(j, 1));

		k->at += n + 1;
		if (kind != NULL && (strcmp(kind, "o") == 0 || strcmp(kind, "m") == 0))
			k->event = j;
		else
			json_decref(j);
	}
}

/* Seconds with a fraction, counted from the start. */
static int64_t event_ms(const struct replay_recording *k)
{
	return k->begin_ms + (int64_t)(json_number_value(json_array_get(k->event, 0)) * 1000 + 0.5);
}

static void recording_free(struct replay_recording *k)
{
	if (k == NULL)
		return;
	json_decref(k->event);
	buf_release(&k->text);
	free(k);
}

/* The buffer's bound is that of a recording. */
static int on_recording(void *arg, const void *data, size_t len, struct err *e)
{
	return buf_add(arg, data, len, e);
}

/* The times of a recording count from the start of its execution. */
static int find_begin(struct replay *p, struct replay_recording *k, struct err *e)
{
	OWN_JSON *execution = NULL;
	struct target t;

	id_match_execution_target(&t, p->session, k->id, NULL);
	if (api_call_json(p->api, "GET", &t, NULL, &execution, e) < 0)
		return -1;
	k->begin_ms = member_time(execution, "started_at");
	k->tty = member_bool(execution, "tty");
	return 0;
}

/* An execution beyond RECORDINGS_MAX is not played. Its lines in the timeline are. */
static int add_recording(struct replay *p, const json_t *entry, struct err *e)
{
	const char *id = member_text(entry, "execution_id", "");
	struct replay_recording *k;

	if (id[0] == '\0' || strlen(id) >= sizeof(k->id) || p->n == RECORDINGS_MAX)
		return 0;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	str_copy(k->id, id);
	buf_init(&k->text, RECORDING_MAX);
	if (find_begin(p, k, e) < 0 || request_cast(p->api, p->session, id, e) < 0 ||
	    client_read_each(p->api->client, on_recording, &k->text, e) < 0) {
		recording_free(k);
		return -1;
	}
	next_event(k);
	p->any_tty = p->any_tty || k->tty;
	p->recordings[p->n++] = k;
	return 0;
}

/* The order of the rest has no meaning, so the last one fills the gap. */
static void drop_ended(struct replay *p)
{
	for (unsigned i = 0; i < p->n;) {
		if (p->recordings[i]->event != NULL) {
			i++;
			continue;
		}
		recording_free(p->recordings[i]);
		p->recordings[i] = p->recordings[--p->n];
	}
}

/* The recording whose next event comes first in time. NULL: none is left. */
static struct replay_recording *first_recording(const struct replay *p)
{
	struct replay_recording *first = NULL;

	for (unsigned i = 0; i < p->n; i++)
		if (first == NULL || event_ms(p->recordings[i]) < event_ms(first))
			first = p->recordings[i];
	return first;
}

/* The next entry of the timeline, or NULL at its end (*ret_failed: or an error). */
static const json_t *next_entry(struct replay *p, bool *ret_failed, struct err *e)
{
	while (p->next >= json_array_size(member_group(p->page, "entries"))) {
		struct target t;
		const char *next;

		if (p->page != NULL && p->after[0] == '\0')
			return NULL;
		json_decref(p->page);
		p->page = NULL;
		p->next = 0;
		id_match_target(&t, p->session, "timeline");
		target_query_number(&t, "limit", PAGE);
		target_query(&t, "after", p->after[0] == '\0' ? NULL : p->after);
		if (api_call_json(p->api, "GET", &t, NULL, &p->page, e) < 0) {
			*ret_failed = true;
			return NULL;
		}
		next = member_text(p->page, "next", "");
		(void)snprintf(p->after, sizeof(p->after), "%s", next);
	}
	return json_array_get(member_group(p->page, "entries"), p->next);
}

/* Wait as long as it took then, but no longer than the longest pause. */
static void wait_until(struct replay *p, int64_t ms)
{
	uint64_t speed = p->fields->speed == 0 ? SPEED : p->fields->speed, wait;

	if (p->now_ms != 0 && ms > p->now_ms) {
		(void)fflush(stdout);
		wait = (uint64_t)(ms - p->now_ms) * 1000 / speed;
		if (wait > p->fields->idle_ms)
			wait = p->fields->idle_ms;
		(void)nanosleep(
			&(struct timespec){ (time_t)(wait / 1000), (long)(wait % 1000) * 1000000 },
			NULL);
	}
	if (ms > p->now_ms)
		p->now_ms = ms;
}

/* A line of the timeline never begins in the middle of output. */
static void end_line(struct replay *p)
{
	if (p->in_line)
		(void)putchar('\n');
	p->in_line = false;
}

/* "-- 20:41:54.617 network: refused: GET ..." */
static void print_line(struct replay *p, const char *kind, const char *title, enum colour c)
{
	time_t seconds = (time_t)(p->now_ms / 1000);
	char text[64] = "";
	struct tm tm;

	end_line(p);
	if (gmtime_r(&seconds, &tm) != NULL)
		(void)snprintf(text, sizeof(text), "%02d:%02d:%02d.%03d", tm.tm_hour % 24,
			       tm.tm_min % 60, tm.tm_sec % 61, (int)(p->now_ms % 1000));
	(void)printf("%s-- %s ", colour(stdout, c), text);
	show_text(kind, stdout);
	(void)fputs(": ", stdout);
	show_text(title, stdout);
	(void)printf("%s\n", colour(stdout, COLOUR_NONE));
}

/* Is the entry one for a line between the output? */
static bool is_shown(const struct replay *p, const json_t *v)
{
	static const char *const noise[] = { "output", "resource", "dns", "network", "package" };
	const char *kind = member_text(v, "kind", "");
	bool quiet = strcmp(member_text(v, "severity", ""), "info") == 0;

	if (strcmp(kind, "output") == 0)
		return false; /* it is played */
	for (size_t i = 0; i < COUNT(noise); i++)
		if (strcmp(kind, noise[i]) == 0 && quiet)
			return p->fields->all ||
			       (strcmp(kind, "package") == 0 &&
				strstr(member_text(v, "title", ""), "downloaded") != NULL);
	return true;
}

/* A start of an execution loads its recording, from which output follows. The entry is taken
 * before anything can fail, so it is played once. */
static int play_entry(struct replay *p, const json_t *v, struct err *e)
{
	const char *severity = member_text(v, "severity", "");

	p->next++;
	if (is_shown(p, v)) {
		wait_until(p, member_time(v, "time"));
		print_line(p, member_text(v, "kind", "?"), member_text(v, "title", ""),
			   strcmp(severity, "alarm") == 0     ? COLOUR_BAD
			   : strcmp(severity, "warning") == 0 ? COLOUR_WARN
							      : COLOUR_FAINT);
	}
	if (strcmp(member_text(v, "type", ""), "execution.started") == 0)
		return add_recording(p, v, e);
	return 0;
}

/* Output of another execution than the last one gets a line with its id, while several run. */
static void play_event(struct replay *p, struct replay_recording *k)
{
	const char *kind = json_string_value(json_array_get(k->event, 1));
	const json_t *text = json_array_get(k->event, 2);
	const char *what = json_string_value(text);
	size_t n = json_string_length(text);

	wait_until(p, event_ms(k));
	if (p->last[0] != '\0' && strcmp(p->last, k->id) != 0 && p->n > 1)
		print_line(p, "output of", k->id, COLOUR_FAINT);
	str_copy(p->last, k->id);
	if (what != NULL && strcmp(kind, "m") == 0) {
		print_line(p, "output", what, COLOUR_WARN);
	} else if (what != NULL && n > 0) {
		(void)fwrite(what, 1, n, stdout);
		p->in_line = what[n - 1] != '\n';
	}
	next_event(k);
	drop_ended(p);
}

/* At equal times output comes first. Both sources have ended when neither has a next item. */
static int replay_play(struct replay *p, struct err *e)
{
	bool failed = false;

	for (;;) {
		const json_t *v = next_entry(p, &failed, e);
		struct replay_recording *k = first_recording(p);

		if (failed || ferror(stdout))
			return failed ? -1 : 0;
		if (v == NULL && k == NULL)
			return 0;
		if (k != NULL && (v == NULL || event_ms(k) <= member_time(v, "time")))
			play_event(p, k);
		else if (play_entry(p, v, e) < 0)
			return -1;
	}
}

/* After a terminal's recording the screen is set back, since a cut recording may have left the
 * alternate screen or a colour. */
static int verb_replay_replay(const struct replay_fields *f, const char *word, struct err *e)
{
	/* Soft reset, the usual screen, the usual colours: undo the state left by a cut
	 * recording. */
	static const char usual[] = "\x1b[!p\x1b[?1049l\x1b[0m";
	char session[ID_MATCH_ID_MAX];
	OWN_API_CALL a = { 0 };
	struct replay p = { .fields = f, .api = &a, .session = session };
	int result;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, session, e) < 0)
		return -1;
	result = replay_play(&p, e);
	if (p.any_tty && isatty(STDOUT_FILENO) == 1)
		(void)fputs(usual, stdout);
	end_line(&p);
	while (p.n > 0)
		recording_free(p.recordings[--p.n]);
	json_decref(p.page);
	return result;
}

static int run_replay(int argc, char **argv)
{
	static struct replay_fields f = { .idle_ms = IDLE_MS };
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_replay, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	return verb_replay_replay(&f, words.at[0], &e) < 0 ? args_refused(&verb_replay, &e)
							   : ARGS_OK;
}

const struct verb verb_replay = {
	.name = "replay",
	.usage = "[options] SESSION",
	.summary = "Plays a session in the terminal: output as it came, events as lines between.",
	.text = "Executions, changed files, refusals, installed packages, limits and alarms are "
		"lines "
		"that begin with\n"
		"`--`. Output is written as the commands wrote it. Pauses are shortened to --idle. "
		"A session that still\n"
		"runs is played up to now.\n",
	.examples = "cordon replay --speed 8 ID\n",
	.options = replay_options,
	.noptions = COUNT(replay_options),
	.run = run_replay,
};
