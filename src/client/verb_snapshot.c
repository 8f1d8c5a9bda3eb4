/* verb_snapshot.c - cordon snapshot and cordon fork: templates and sessions from the files of a
 * session. */
#include <stdio.h>
#include <string.h>

#include "compose.h"
#include "id_match.h"
#include "member.h"
#include "resource_table.h"
#include "show.h"
#include "show_json.h"
#include "verbs.h"

#define CAPTURE_MS 660000 /* for the answer: a session with many files takes a while */

struct fields {
	struct args_common common;
	uint64_t count;
	const char *timeout, *expires_in;
};

/* clang-format off */
static const struct option options[] = {
	{ "expires-in", "TIME", OPTION_TEXT, offsetof(struct fields, expires_in), 0, 0,
	  "it is removed after this time (default: the server's snapshot_keep)" },
	ARGS_COMMON(struct fields),
};

static const struct option fork_options[] = {
	{ "count", "N", OPTION_COUNT, offsetof(struct fields, count), 1, 100,
	  "how many sessions (default: 1)" },
	{ "timeout", "TIME", OPTION_TEXT, offsetof(struct fields, timeout), 0, 0,
	  "lifetime of each (default: that of the source)" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static const char *const heads[] = {
	"ID", "NAME", "OWNER", "SESSION", "SIZE", "CREATED", "EXPIRES"
};
static const char *const names[] = { "id",    "name",	    "owner",	 "session_id",
				     "bytes", "created_at", "expires_at" };
static const struct resource_table snapshots = { "/v1/snapshots", "snapshots", heads, names,
						 COUNT(heads) };

static int make(const struct fields *f, struct api_call *a, const struct args_words *words,
		struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *made = NULL;
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (id_match_session(a, words->at[0], id, e) < 0 ||
	    compose_text(body, "name", "the name", words->n > 1 ? words->at[1] : NULL, e) < 0 ||
	    compose_time_text(body, "expires_in", "--expires-in", f->expires_in, e) < 0)
		return -1;
	id_match_target(&t, id, "snapshots");
	if (api_call_json(a, "POST", &t, body, &made, e) < 0)
		return -1;
	resource_table_show(&f->common, made, "id");
	return 0;
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_snapshot, argc, argv, &f, &words, 1, 2), done;

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, CAPTURE_MS, &e) < 0)
		return args_fail(&e);
	if (strcmp(words.at[0], "ls") == 0 && words.n == 1)
		done = resource_table_list(&f.common, &a, &snapshots, &e);
	else if (strcmp(words.at[0], "rm") == 0 && words.n == 2)
		done = resource_table_remove(&a, snapshots.path, words.at[1], &e);
	else if (strcmp(words.at[0], "rm") == 0)
		return args_wrong(&verb_snapshot, "rm: which snapshot?");
	else
		done = make(&f, &a, &words, &e);
	return done < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.usage = "[options] SESSION [NAME] | ls | rm SNAPSHOT",
	.summary = "Keeps the files of a session as a template, and prints its id.",
	.text = "Sessions are made from it with --template: by its id, its NAME or NAME:TAG. They "
		"have\n"
		"the files of the session as they were, and fresh processes. NAME may have a tag "
		"(NAME:TAG);\n"
		"a name that exists gets a new version.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};

static int fork_session(const struct fields *f, struct api_call *a, const char *word, struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *answer = NULL;
	char id[ID_MATCH_ID_MAX];
	const json_t *errors;
	struct target t;

	if (id_match_session(a, word, id, e) < 0 ||
	    compose_number(body, "count", f->count, e) < 0 ||
	    compose_time_text(body, "timeout", "--timeout", f->timeout, e) < 0)
		return -1;
	id_match_target(&t, id, "fork");
	if (api_call_json(a, "POST", &t, body, &answer, e) < 0)
		return -1;
	if (f->common.json)
		show_json(answer, true, stdout);
	for (size_t i = 0; !f->common.json && i < json_array_size(member_group(answer, "sessions"));
	     i++) {
		show_text(
			member_text(json_array_get(member_group(answer, "sessions"), i), "id", "?"),
			stdout);
		(void)putchar('\n');
	}
	errors = member_group(answer, "errors");
	if (json_array_size(errors) == 0)
		return 0;
	return err_set(
		e, ERR_LIMIT, "%zu were not made: %.150s", json_array_size(errors),
		member_text(member_group(json_array_get(errors, 0), "error"), "message", "?"));
}

static int run_fork(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_fork, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, CAPTURE_MS, &e) < 0 ||
	    fork_session(&f, &a, words.at[0], &e) < 0)
		return args_fail(&e);
	return ARGS_OK;
}

const struct verb verb_fork = {
	.name = "fork",
	.usage = "[--count N] [options] SESSION",
	.summary = "Makes sessions with the files and settings of another, and prints their ids.",
	.text = "Each has fresh processes. The source goes on; it is frozen until its files are "
		"read.\n",
	.options = fork_options,
	.noptions = COUNT(fork_options),
	.run = run_fork,
};
