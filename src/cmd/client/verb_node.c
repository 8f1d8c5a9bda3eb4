/* verb_node.c - cordon node, limits and inspect: one answer of the server, for people. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/units.h"

struct node_fields {
	struct args_common common;
};

/* No option of its own: the three verbs differ in their route only. */
static const struct option options[] = {
	ARGS_COMMON(struct node_fields),
};

/* Ask for t and print the answer: with --json as JSON, else by show. Return the exit code. */
static int print_answer(const struct verb *v, const struct node_fields *f, struct api_call *a,
			const struct target *t, void show(const json_t *answer), struct err *e)
{
	OWN_JSON *answer = NULL;

	if (api_call_json(a, "GET", t, NULL, &answer, e) < 0)
		return args_refused(v, e);
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

/* For answers without an argument. */
static int run_plain(const struct verb *v, const char *path, int argc, char **argv)
{
	static struct node_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	struct target t;
	int code = api_call_begin(v, argc, argv, &f, &words, 0, 0, API_CALL_ANSWER_MS, &a, &e);

	if (code != ARGS_GO)
		return code;
	target_init(&t, path);
	return print_answer(v, &f, &a, &t, print_tree, &e);
}

/* The answer has more members for the operator's key. */
static int run_node(int argc, char **argv)
{
	return run_plain(&verb_node, "/v1/node", argc, argv);
}

const struct verb verb_node = {
	.name = "node",
	.usage = "[options]",
	.summary = "Shows the server: version, isolation, sessions, capacity, pool.",
	.text = "",
	.examples = "cordon node\n"
		    "cordon node --json | jq .capacity\n",
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
	.examples = "cordon limits | grep -e max_sessions -e used\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_limits,
};

/* The same tree as for the node. */
static int run_inspect(int argc, char **argv)
{
	static struct node_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int code = api_call_begin(&verb_inspect, argc, argv, &f, &words, 1, 1, API_CALL_ANSWER_MS,
				  &a, &e);

	if (code != ARGS_GO)
		return code;
	if (id_match_session(&a, words.at[0], id, &e) < 0)
		return args_refused(&verb_inspect, &e);
	id_match_target(&t, id, NULL);
	return print_answer(&verb_inspect, &f, &a, &t, print_tree, &e);
}

const struct verb verb_inspect = {
	.name = "inspect",
	.usage = "[options] SESSION",
	.summary = "Shows one session: state, limits, files, network, times.",
	.text = "cordon ls SESSION lists its commands, cordon net SESSION what it tried to "
		"reach.\n",
	.examples = "cordon inspect ID\n"
		    "cordon inspect ID --json | jq .limits\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_inspect,
};
