/* verb_life.c - cordon pause, resume, reset, rm and timeout: change the state of sessions.
 *
 * Each session is one request, one after the other. A failure is printed, the other sessions
 * follow, and the exit status tells it at the end. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/compose.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

#define SESSIONS_MAX 100000
#define FILES_MS 660000 /* for an answer: a session with many files takes a while */

/* All verbs of the file share these fields. Each verb's table has only the options that it
 * knows. */
struct life_fields {
	struct args_common common;
	bool all, no_memory;
};

/* clang-format off */
static const struct option options[] = {
	ARGS_COMMON(struct life_fields),
};

static const struct option pause_options[] = {
	{ "no-memory", NULL, OPTION_FLAG, offsetof(struct life_fields, no_memory), 0, 0,
	  "keeps only the files, and frees the memory; resume boots the session again" },
	ARGS_COMMON(struct life_fields),
};

static const struct option rm_options[] = {
	{ "all", NULL, OPTION_FLAG, offsetof(struct life_fields, all), 0, 0,
	  "all sessions that have not ended", 'a' },
	ARGS_COMMON(struct life_fields),
};
/* clang-format on */

/* With --json the session after the change, else its id alone, so that a script can use it. */
static void print_session(const struct life_fields *f, const char *id, const json_t *session)
{
	if (f->common.json && session != NULL)
		show_json(session, true, stdout);
	else if (!f->common.json) {
		show_text(id, stdout);
		(void)putchar('\n');
	}
}

/* POST or DELETE at one session. action: NULL for the session itself. The word may be the
 * beginning of an id. The error names the session, because several may be given. */
static int life_act(const struct life_fields *f, struct api_call *a, const char *word,
		    const char *method, const char *action, const json_t *body, struct err *e)
{
	OWN_JSON *session = NULL;
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (id_match_session(a, word, id, e) < 0)
		return err_wrap(e, "%.60s", word);
	id_match_target(&t, id, action);
	if (api_call_json(a, method, &t, body, &session, e) < 0)
		return err_wrap(e, "%s", id);
	print_session(f, id, session);
	return 0;
}

/* Continue after a failure with the other sessions. The exit code is that of the last failure. */
static int act_on_all(const struct verb *v, int argc, char **argv, const char *action)
{
	static struct life_fields f;
	static struct args_words words;
	OWN_JSON *body = NULL;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(v, argc, argv, &f, &words, 1, ARGS_WORDS_MAX), result = ARGS_OK;

	if (code != ARGS_GO)
		return code;
	if (f.no_memory)
		body = json_pack("{s:b}", "memory", 0);
	if (api_call_open(&a, &f.common, FILES_MS, &e) < 0)
		return args_refused(v, &e);
	for (size_t i = 0; i < words.n; i++)
		if (life_act(&f, &a, words.at[i], "POST", action, body, &e) < 0)
			result = args_refused(v, &e);
	return result;
}

static int run_pause(int argc, char **argv)
{
	/* pause, resume and reset differ in the last part of the route only. The options of each
	 * verb decide about the body. */
	return act_on_all(&verb_pause, argc, argv, "pause");
}

const struct verb verb_pause = {
	.name = "pause",
	.usage = "[options] SESSION...",
	.summary = "Pauses sessions, with their memory or without it.",
	.text = "With its memory a session goes on where it was; it keeps using the memory, and "
		"ends with\n"
		"the machine. With --no-memory it is stopped: it has fresh processes when it is "
		"used "
		"again.\n",
	.examples = "cordon pause ID\n"
		    "cordon pause --no-memory ID\n",
	.options = pause_options,
	.noptions = COUNT(pause_options),
	.run = run_pause,
};

/* The route is the same for a paused session and for a stopped one. */
static int run_resume(int argc, char **argv)
{
	return act_on_all(&verb_resume, argc, argv, "resume");
}

const struct verb verb_resume = {
	.name = "resume",
	.usage = "[options] SESSION...",
	.summary = "Resumes paused sessions, and starts stopped ones.",
	.text = "",
	.examples = "cordon resume ID\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_resume,
};

static int run_reset(int argc, char **argv)
{
	return act_on_all(&verb_reset, argc, argv, "reset");
}

const struct verb verb_reset = {
	.name = "reset",
	.usage = "[options] SESSION...",
	.summary = "Brings sessions back to their start: files and processes are dropped.",
	.text = "Their ids and settings stay.\n",
	.examples = "cordon reset ID\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_reset,
};

/* The list is read first, so sessions that are created in between are left alone. To remove one
 * that has ended in between is no error. */
static int remove_all(const struct life_fields *f, struct api_call *a, struct err *e)
{
	OWN_JSON *list = NULL;
	struct target t;
	int result = ARGS_OK;

	target_init(&t, "/v1/sessions");
	target_query(&t, "ended", "false");
	if (api_call_pages(a, &t, "sessions", NULL, SESSIONS_MAX, &list, e) < 0)
		return args_refused(&verb_rm, e);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (life_act(f, a, member_text(json_array_get(list, i), "id", "?"), "DELETE", NULL,
			     NULL, e) < 0)
			result = args_refused(&verb_rm, e);
	return result;
}

/* --all and names exclude each other, so a misspelt command line never removes all. */
static int run_rm(int argc, char **argv)
{
	static struct life_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_rm, argc, argv, &f, &words, 0, ARGS_WORDS_MAX);
	int result = ARGS_OK;

	if (code != ARGS_GO)
		return code;
	if ((words.n == 0) != f.all)
		return args_wrong(&verb_rm, "either sessions or --all");
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(&verb_rm, &e);
	if (f.all)
		return remove_all(&f, &a, &e);
	for (size_t i = 0; i < words.n; i++)
		if (life_act(&f, &a, words.at[i], "DELETE", NULL, NULL, &e) < 0)
			result = args_refused(&verb_rm, &e);
	return result;
}

const struct verb verb_rm = {
	.name = "rm",
	.usage = "[options] SESSION... | --all",
	.summary = "Ends sessions and everything in them.",
	.text = "The ids of removed sessions are printed. Removing one twice is no error.\n",
	.examples = "cordon rm ID\n"
		    "cordon rm --all\n",
	.options = rm_options,
	.noptions = COUNT(rm_options),
	.run = run_rm,
};

/* The time is checked before the session is looked for. 0 is a time here, so it is sent. */
static int run_timeout(int argc, char **argv)
{
	static struct life_fields f;
	static struct args_words words;
	OWN_JSON *body = json_object();
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_timeout, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	if (compose_time_text(body, "timeout", "the time", words.at[1], &e) < 0 ||
	    api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0 ||
	    life_act(&f, &a, words.at[0], "POST", "timeout", body, &e) < 0)
		return args_refused(&verb_timeout, &e);
	return ARGS_OK;
}

const struct verb verb_timeout = {
	.name = "timeout",
	.usage = "[options] SESSION TIME",
	.summary = "Sets the remaining lifetime of a session.",
	.text = "TIME is a time such as 30s, 10m or 2h, counted from now; 0: no limit, if the "
		"server\n"
		"allows it.\n",
	.examples = "cordon timeout ID 30m\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_timeout,
};
