/* verb_node.c - cordon node: the state of the server, one member in a line. */
#include <stdio.h>
#include <string.h>

#include "api_call.h"
#include "member.h"
#include "show.h"
#include "show_json.h"
#include "verbs.h"

struct fields {
	struct args_common common;
};

static const struct option options[] = {
	ARGS_COMMON(struct fields),
};

/* {"a":1,"b":{"c":"x"}} as lines "a: 1", "b.c: x". */
static void print_tree(const json_t *object, const char *prefix)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		char name[160], text[1024];

		(void)snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix == '\0' ? "" : ".",
			       key);
		if (json_is_object(value) && strlen(prefix) < 100) {
			print_tree(value, name);
			continue;
		}
		show_text(name, stdout);
		(void)fputs(": ", stdout);
		show_json_cell(value, text, sizeof(text));
		show_text(text, stdout);
		(void)putchar('\n');
	}
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	struct target t;
	int code = args_read(&verb_node, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	target_init(&t, "/v1/node");
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0 ||
	    api_call_json(&a, "GET", &t, NULL, &answer, &e) < 0)
		return args_fail(&e);
	if (f.common.json)
		show_json(answer, true, stdout);
	else
		print_tree(answer, "");
	return ARGS_OK;
}

const struct verb verb_node = {
	.name = "node",
	.usage = "[options]",
	.summary = "Shows the server: version, isolation, sessions, capacity, pool.",
	.text = "",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
