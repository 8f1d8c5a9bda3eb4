/* verb_node.c - cordon node, limits, usage and inspect: one answer of the server, for people. */
#include <stdio.h>
#include <string.h>

#include "api_call.h"
#include "id_match.h"
#include "member.h"
#include "resource_table.h"
#include "show.h"
#include "show_json.h"
#include "show_tree.h"
#include "units.h"
#include "verbs.h"

#define USAGE_HOURS_DEFAULT 24
#define HOUR_MS 3600000
#define USAGE_MAX_MS (31ULL * 24 * HOUR_MS)

struct fields {
	struct args_common common;
	uint64_t since_ms;
};

static const struct option options[] = {
	ARGS_COMMON(struct fields),
};

/* clang-format off */
static const struct option usage_options[] = {
	{ "since", "TIME", OPTION_TIME, offsetof(struct fields, since_ms), 1, USAGE_MAX_MS,
	  "how far back to count, such as 7d (default 24h, at most 31d); whole hours" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* Asks for t and prints the answer; with --json as JSON, else by show. */
static int print_answer(const struct fields *f, struct api_call *a, const struct target *t,
			void show(const json_t *answer), struct err *e)
{
	OWN_JSON *answer = NULL;

	if (api_call_json(a, "GET", t, NULL, &answer, e) < 0)
		return args_fail(e);
	if (f->common.json)
		show_json(answer, true, stdout);
	else
		show(answer);
	return ARGS_OK;
}

static void print_tree(const json_t *answer)
{
	show_tree(answer, stdout);
}

static int run_plain(const struct verb *v, const char *path, int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	struct target t;
	int code = args_read(v, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	target_init(&t, path);
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0)
		return args_fail(&e);
	return print_answer(&f, &a, &t, print_tree, &e);
}

static int run_node(int argc, char **argv)
{
	return run_plain(&verb_node, "/v1/node", argc, argv);
}

const struct verb verb_node = {
	.name = "node",
	.usage = "[options]",
	.summary = "Shows the server: version, isolation, sessions, capacity, pool.",
	.text = "",
	.options = options,
	.noptions = COUNT(options),
	.run = run_node,
};

static int run_limits(int argc, char **argv)
{
	return run_plain(&verb_limits, "/v1/limits", argc, argv);
}

const struct verb verb_limits = {
	.name = "limits",
	.usage = "[options]",
	.summary = "Shows what your key and its tenant may use, and what is used now.",
	.text = "tenant.* are the limits of all sessions together, session.* those of one, used.*\n"
		"what live sessions have now. doc/limits.md says what each one holds.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_limits,
};

/* One row for each label, and their sum. */
static void print_usage(const json_t *answer)
{
	static const char *const heads[] = { "LABEL",	   "SESSIONS", "CPU S",	   "MEMORY GIB S",
					     "DISK GIB S", "BYTES IN", "BYTES OUT" };
	static const char *const names[] = { "label",
					     "sessions",
					     "cpu_seconds",
					     "memory_gib_seconds",
					     "disk_gib_seconds",
					     "network_bytes_in",
					     "network_bytes_out" };
	OWN_JSON *rows = json_array();
	OWN_JSON *total = json_deep_copy(json_object_get(answer, "total"));
	const json_t *labels = member_group(answer, "labels");

	for (size_t i = 0; i < json_array_size(labels); i++)
		(void)json_array_append(rows, json_array_get(labels, i));
	(void)json_object_set_new(total, "label", json_string("(all)"));
	(void)json_array_append(rows, total);
	resource_table_print(heads, names, COUNT(heads), rows);
}

static int run_usage(int argc, char **argv)
{
	static struct fields f = { .since_ms = (uint64_t)USAGE_HOURS_DEFAULT * HOUR_MS };
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	struct target t;
	int code = args_read(&verb_usage, argc, argv, &f, &words, 0, 0);
	uint64_t now = (uint64_t)show_now_ms();

	if (code != ARGS_GO)
		return code;
	target_init(&t, "/v1/usage");
	target_query_number(&t, "from", (now - f.since_ms) / 1000);
	target_query_number(&t, "to", now / 1000);
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0)
		return args_fail(&e);
	return print_answer(&f, &a, &t, print_usage, &e);
}

const struct verb verb_usage = {
	.name = "usage",
	.usage = "[options]",
	.summary = "Shows what your tenant's sessions used: processors, memory, disk, network.",
	.text = "One row for each value of the metadata `label` of sessions (cordon create "
		"--metadata\n"
		"label=NAME), and the sum. What live sessions used in the last five minutes may be "
		"missing.\n",
	.options = usage_options,
	.noptions = COUNT(usage_options),
	.run = run_usage,
};

static int run_inspect(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = args_read(&verb_inspect, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0 ||
	    id_match_session(&a, words.at[0], id, &e) < 0)
		return args_fail(&e);
	id_match_target(&t, id, NULL);
	return print_answer(&f, &a, &t, print_tree, &e);
}

const struct verb verb_inspect = {
	.name = "inspect",
	.usage = "[options] SESSION",
	.summary = "Shows one session: state, limits, files, network, times.",
	.text = "cordon ls SESSION lists its commands, cordon net SESSION what it tried to "
		"reach.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_inspect,
};
