/* verb_ls.c - cordon ls: sessions, or the executions of one, as a table.
 *
 * All pages are read, up to ROWS_MAX rows, before the first line is printed, since the widths of
 * columns depend on all rows. --json prints them as one page. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/columns.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

#define ROWS_MAX 100000

struct ls_fields {
	struct args_common common;
	const char *template, *state;
	struct option_list metadata;
	bool all, quiet;
};

/* Filters become part of the query, so the server selects and the pages stay short. */
#define FIELD(name) offsetof(struct ls_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "all", NULL, OPTION_FLAG, FIELD(all), 0, 0, "also sessions that have ended", 'a' },
	{ "quiet", NULL, OPTION_FLAG, FIELD(quiet), 0, 0, "ids only", 'q' },
	{ "state", "NAME,...", OPTION_TEXT, FIELD(state), 0, 0, "only those in these states", .values = "creating running paused stopped ended" },
	{ "template", "NAME", OPTION_TEXT, FIELD(template), 0, 0, "only those made from it", .values = "@templates" },
	{ "metadata", "K=V", OPTION_LIST, FIELD(metadata), 0, 0, "only those with this metadata" },
	ARGS_COMMON(struct ls_fields),
};
/* clang-format on */

/* Metadata of the session of an MCP server, whose it is. */
static void show_pairs(const json_t *s, char *ret, size_t cap)
{
	const json_t *of = member_group(s, "mcp_server");
	size_t n;

	ret[0] = '\0';
	if (json_object_size(of) > 0)
		(void)snprintf(ret, cap, "(MCP server %s of %s) ", member_text(of, "name", "?"),
			       member_text(of, "session", "?"));
	n = strlen(ret);
	show_json_pairs(member_group(s, "metadata"), ret + n, cap - n);
}

/* The colour for the state of a session or an execution. */
static enum colour colour_of(const char *state, bool has_ended)
{
	if (has_ended)
		return COLOUR_FAINT;
	if (strcmp(state, "running") == 0)
		return COLOUR_GOOD;
	return strcmp(state, "paused") == 0 || strcmp(state, "stopped") == 0 ? COLOUR_WARN
									     : COLOUR_NONE;
}

/* The remaining time, and the action behind it unless the session ends: one with lasting files is
 * stopped or paused first, and deleted after a long time without use. */
static void show_left(const json_t *s, int64_t now, char ret[32])
{
	int64_t expires = member_time(s, "expires_at"), kept = member_time(s, "kept_until");
	bool pauses = strcmp(member_text(s, "on_timeout", "kill"), "kill") != 0;
	char span[16];

	(void)snprintf(ret, 32, "-");
	if ((expires < 0 && kept < 0) || member_time(s, "ended_at") >= 0)
		return;
	if (expires < 0)
		expires = kept; /* it is paused, or stopped */
	show_span(expires > now ? expires - now : 0, span, sizeof(span));
	(void)snprintf(ret, 32, "%s%s", span,
		       expires == kept		   ? ""
		       : pauses			   ? " (pauses)"
		       : member_bool(s, "persist") ? " (stops)"
						   : "");
}

/* One row. The cells are in the order of the heads in print_sessions(). */
static void add_session(struct columns *t, const json_t *s, int64_t now)
{
	int64_t created = member_time(s, "created_at");
	const char *reason = member_text(s, "reason", NULL);
	char age[16], left[32], pairs[COLUMNS_CELL_MAX];

	show_span(created < 0 ? -1 : now - created, age, sizeof(age));
	show_left(s, now, left);
	show_pairs(s, pairs, sizeof(pairs));
	columns_add(t, "%s", member_text(s, "id", "?"));
	columns_add(t, reason == NULL ? "%s%s" : "%s (%s)", member_text(s, "state", "?"),
		    reason == NULL ? "" : reason);
	columns_paint(t, colour_of(member_text(s, "state", ""), reason != NULL));
	columns_add(t, "%s", age);
	columns_add(t, "%s", left);
	columns_add(t, "%s", member_text(s, "template", "?"));
	columns_add(t, "%s", member_text(s, "level", "-"));
	columns_add(t, "%s",
		    member_bool(s, "persist") ? "persistent" : member_text(s, "storage", "-"));
	columns_add(t, "%llu", (unsigned long long)member_number(s, "executions_running", 0));
	columns_add(t, "%s", pairs);
}

static void print_sessions(const json_t *list)
{
	static const char *const heads[] = { "ID",    "STATE",	 "AGE",	    "EXPIRES", "TEMPLATE",
					     "LEVEL", "STORAGE", "RUNNING", "METADATA" };
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *s = json_array_get(list, i);
		add_session(&t, s, show_now_ms());
	}
	columns_print(&t, SIZE_MAX, 0, stdout);
}

/* As add_session(). A limit that was hit is shown with the state and in red. Code has a language
 * in place of a command. */
static void add_execution(struct columns *t, const json_t *x, int64_t now)
{
	int64_t started = member_time(x, "started_at");
	const char *limit = member_text(x, "limit", NULL);
	char age[16], wall[16];

	show_span(started < 0 ? -1 : now - started, age, sizeof(age));
	show_span((int64_t)member_number(x, "wall_ms", 0), wall, sizeof(wall));
	columns_add(t, "%s", member_text(x, "id", "?"));
	columns_add(t, limit == NULL ? "%s%s" : "%s (%s)", member_text(x, "state", "?"),
		    limit == NULL ? "" : limit);
	columns_paint(t,
		      limit != NULL ? COLOUR_BAD : colour_of(member_text(x, "state", ""), false));
	columns_add(t, "%s", age);
	columns_add(t, "%s", wall);
	if (json_is_integer(json_object_get(x, "exit_code")))
		columns_add(t, "%llu", (unsigned long long)member_number(x, "exit_code", 0));
	else
		columns_add(t, "-");
	columns_add(t, "%s", member_text(x, "user", "-"));
	if (member_text(x, "command", NULL) == NULL && member_text(x, "language", NULL) != NULL)
		columns_add(t, "(%s code)", member_text(x, "language", ""));
	else
		columns_add(t, "%s", member_text(x, "command", "-"));
}

static void print_executions(const json_t *list)
{
	static const char *const heads[] = { "EXECUTION", "STATE", "AGE",    "TIME",
					     "EXIT",	  "USER",  "COMMAND" };
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *x = json_array_get(list, i);
		add_execution(&t, x, show_now_ms());
	}
	columns_print(&t, SIZE_MAX, 0, stdout);
}

/* Without --state and --all only sessions that have not ended. Each pair of metadata is a member
 * of the query. */
static int add_filters(const struct ls_fields *f, struct target *t, struct err *e)
{
	if (f->state != NULL)
		target_query(t, "state", f->state);
	else
		target_query(t, "ended", f->all ? "any" : "false");
	target_query(t, "template", f->template);
	for (size_t i = 0; i < f->metadata.n; i++) {
		const char *text = f->metadata.items[i], *equal = strchr(text, '=');
		char name[512];

		if (equal == NULL || equal == text || equal - text > 400)
			return err_set(e, ERR_INVALID, "--metadata: '%.60s' is not NAME=VALUE",
				       text);
		(void)snprintf(name, sizeof(name), "metadata.%.*s", (int)(equal - text), text);
		target_query(t, name, equal + 1);
	}
	return 0;
}

/* All rows are read before one is printed. *ret is owned by the caller. */
static int ls_list(const struct ls_fields *f, const char *word, json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0)
		return -1;
	if (word != NULL) {
		if (id_match_session(&a, word, id, e) < 0)
			return -1;
		id_match_target(&t, id, "executions");
		return api_call_pages(&a, &t, "executions", NULL, ROWS_MAX, ret, e);
	}
	target_init(&t, "/v1/sessions");
	if (add_filters(f, &t, e) < 0)
		return -1;
	return api_call_pages(&a, &t, "sessions", NULL, ROWS_MAX, ret, e);
}

/* For scripts: one id in a line. Used by `cordon rm $(cordon ls --quiet)` and the like. */
static void print_ids(const json_t *items)
{

	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);
		show_text(member_text(item, "id", "?"), stdout);
		(void)putchar('\n');
	}
}

/* As one page that holds all. "next" is null, as on the last page of the server. */
static void print_json(const char *member, json_t *items)
{
	OWN_JSON *page = json_pack("{s:O, s:n}", member, items, "next");

	show_json(page, true, stdout);
}

/* The same verb lists sessions or the executions of one. */
static int ls_run(int argc, char **argv)
{
	static struct ls_fields f;
	static struct args_words words;
	OWN_JSON *items = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_ls, argc, argv, &f, &words, 0, 1);

	if (code != ARGS_GO)
		return code;
	if (ls_list(&f, words.at[0], &items, &e) < 0)
		return args_refused(&verb_ls, &e);
	if (f.common.json)
		print_json(words.n > 0 ? "executions" : "sessions", items);
	else if (f.quiet)
		print_ids(items);
	else if (words.n > 0)
		print_executions(items);
	else
		print_sessions(items);
	return ARGS_OK;
}

const struct verb verb_ls = {
	.name = "ls",
	.usage = "[options] [SESSION]",
	.summary = "Lists sessions, or the executions of one.",
	.text = "A session that is stopped has its files and no processes: its next use starts it. "
		"One that is ended is gone for good.\n"
		"A unique beginning of an id is enough, here and in all other verbs.\n",
	.examples = "cordon ls\n"
		    "cordon ls --metadata task=review --state running\n"
		    "cordon ls ID                                # commands of a session\n"
		    "cordon rm $(cordon ls --quiet)\n",
	.options = options,
	.noptions = COUNT(options),
	.run = ls_run,
};
