/* verb_snapshot.c - cordon snapshot and cordon fork: templates and sessions from the files of a
 * session.
 *
 * The answer comes when the files are copied. If the copy has values of the session's secrets and
 * the server allows that, the number and names of the files go to stderr. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/compose.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

#define CAPTURE_MS 660000 /* for the answer: a session with many files takes a while */

/* The fields of snapshot and fork. */
struct snapshot_fields {
	struct args_common common;
	uint64_t count;
	const char *timeout, *expires_in;
};

/* clang-format off */
static const struct option options[] = {
	{ "expires-in", "TIME", OPTION_SPAN, offsetof(struct snapshot_fields, expires_in), 0, 0,
	  "it is removed after this time (default: the server's snapshot_keep)", .member = "expires_in" },
	ARGS_COMMON(struct snapshot_fields),
};

static const struct option fork_options[] = {
	{ "count", "N", OPTION_COUNT, offsetof(struct snapshot_fields, count), 1, 100,
	  "how many sessions (default: 1)", .member = "count" },
	{ "timeout", "TIME", OPTION_SPAN, offsetof(struct snapshot_fields, timeout), 0, 0,
	  "lifetime of each (default: that of the source)", .member = "timeout" },
	ARGS_COMMON(struct snapshot_fields),
};
/* clang-format on */

static const char *const heads[] = {
	"ID", "NAME", "OWNER", "SESSION", "SIZE", "CREATED", "EXPIRES"
};
static const char *const names[] = { "id",    "name",	    "owner",	 "session_id",
				     "bytes", "created_at", "expires_at" };
/* As it is typed: only the tenant's own are shown, whose names need no owner. */
static const char *without_owner(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash == NULL ? name : slash + 1;
}

/* Cut the owner, and the ending `cut` if the text has it. A row without the member stays as it
 * is. */
static void snapshot_shorten(json_t *item, const char *member, const char *cut)
{
	const char *text = member_text(item, member, NULL);
	size_t n = text == NULL ? 0 : strlen(text), end = strlen(cut);
	OWN_JSON *shorter = NULL;

	if (text == NULL)
		return;
	if (end > 0 && n > end && strcmp(text + n - end, cut) == 0)
		n -= end;
	shorter = json_stringn(without_owner(text), n - (size_t)(without_owner(text) - text));
	if (shorter != NULL)
		IGNORED(json_object_set(item, member, shorter), "it stays long");
}

/* The tag stays: `rm` removes one version by it, and all without. The owner goes away from both
 * columns, since names of the own tenant need none. */
static void shorten_row(json_t *item)
{
	snapshot_shorten(item, "id", "");
	snapshot_shorten(item, "name", "");
}

static const struct resource_table snapshots = { "/v1/snapshots", "snapshots",	heads,
						 names,		  COUNT(heads), shorten_row };

/* The copy has files with values of secrets, and the server allows that. On stderr, so that
 * stdout has ids only. The number is exact, the list of names may be shorter. */
static void tell_secrets(const json_t *made)
{
	const json_t *found = member_group(made, "secrets_in_files");
	const json_t *files = member_group(found, "files");

	if (json_object_size(found) == 0)
		return;
	(void)fprintf(stderr, "cordon: %lld files of the copy have values of the session's secrets",
		      (long long)json_integer_value(json_object_get(found, "count")));
	for (size_t i = 0; i < json_array_size(files); i++) {
		(void)fputs(i == 0 ? ": " : ", ", stderr);
		show_text(json_string_value(json_array_get(files, i)), stderr);
	}
	if (json_is_true(json_object_get(found, "unsearched")))
		(void)fputs("; files from before a pause or a fork were not searched", stderr);
	(void)fputc('\n', stderr);
}

/* The printed id is the shortest that --template takes: the tag `default` is left out. */
static int verb_snapshot_make(const struct snapshot_fields *f, struct api_call *a,
			      const struct args_words *words, struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *made = NULL;
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (id_match_session(a, words->at[0], id, e) < 0 ||
	    compose_text(body, "name", "the name", words->n > 1 ? words->at[1] : NULL, e) < 0 ||
	    compose_options(body, options, COUNT(options), f, e) < 0)
		return -1;
	id_match_target(&t, id, "snapshots");
	if (api_call_json(a, "POST", &t, body, &made, e) < 0)
		return -1;
	tell_secrets(made);
	if (!f->common.json)
		snapshot_shorten(made, "id", ":default");
	resource_table_show(&f->common, made, "id");
	return 0;
}

/* "ls" and "rm" are words and no ids, so a session whose id begins so needs more of it. */
static int snapshot_run(int argc, char **argv)
{
	static struct snapshot_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = api_call_begin(&verb_snapshot, argc, argv, &f, &words, 1, 2, CAPTURE_MS, &a, &e),
	    done;

	if (code != ARGS_GO)
		return code;
	if (strcmp(words.at[0], "ls") == 0 && words.n == 1)
		done = resource_table_list(&f.common, &a, &snapshots, &e);
	else if (strcmp(words.at[0], "rm") == 0 && words.n == 2)
		done = resource_table_remove(&a, snapshots.path, words.at[1], &e);
	else if (strcmp(words.at[0], "rm") == 0)
		return args_wrong(&verb_snapshot, "rm: which snapshot?");
	else
		done = verb_snapshot_make(&f, &a, &words, &e);
	return done < 0 ? args_refused(&verb_snapshot, &e) : ARGS_OK;
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
	.examples = "cordon snapshot ID ready\n"
		    "cordon create --template ready\n"
		    "cordon snapshot ls\n",
	.options = options,
	.noptions = COUNT(options),
	.run = snapshot_run,
};

/* Some forks may succeed while others fail: the ids of the made ones are printed, and the
 * message has the number of the others and the first error. */
static int fork_session(const struct snapshot_fields *f, struct api_call *a, const char *word,
			struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *answer = NULL;
	char id[ID_MATCH_ID_MAX];
	const json_t *errors;
	struct target t;

	if (id_match_session(a, word, id, e) < 0 ||
	    compose_options(body, fork_options, COUNT(fork_options), f, e) < 0)
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
	tell_secrets(answer);
	errors = member_group(answer, "errors");
	if (json_array_size(errors) == 0)
		return 0;
	return err_set(
		e, ERR_LIMIT, "%zu were not made: %.150s", json_array_size(errors),
		member_text(member_group(json_array_get(errors, 0), "error"), "message", "?"));
}

static int run_fork(int argc, char **argv)
{
	static struct snapshot_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = api_call_begin(&verb_fork, argc, argv, &f, &words, 1, 1, CAPTURE_MS, &a, &e);

	if (code != ARGS_GO)
		return code;
	if (fork_session(&f, &a, words.at[0], &e) < 0)
		return args_refused(&verb_fork, &e);
	return ARGS_OK;
}

const struct verb verb_fork = {
	.name = "fork",
	.usage = "[--count N] [options] SESSION",
	.summary = "Makes sessions with the files and settings of another, and prints their ids.",
	.text = "Each has fresh processes. The source goes on; it is frozen until its files are "
		"read.\n",
	.examples = "cordon fork --count 3 ID\n",
	.options = fork_options,
	.noptions = COUNT(fork_options),
	.run = run_fork,
};
