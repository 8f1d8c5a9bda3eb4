/* verb_look.c - into a session: its processes (ps, kill), its file system (diff); and at the server
 * (node). */
#include <string.h>

#include "columns.h"
#include "compose.h"
#include "member.h"
#include "id_match.h"
#include "show.h"
#include "show_json.h"
#include "units.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	const char *signal;
};

/* clang-format off */
static const struct option options[] = {
	ARGS_COMMON(struct fields),
};

static const struct option kill_options[] = {
	{ "signal", "NAME", OPTION_TEXT, offsetof(struct fields, signal), 0, 0,
	  "sends only this signal, to the execution's first process", 's' },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* GETs one part of a session. */
static int get(const struct fields *f, const char *word, const char *part, json_t **ret,
	       struct err *e)
{
	OWN_ASK a = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_PATIENCE_MS, e) < 0 ||
	    id_match_session(&a, word, id, e) < 0)
		return -1;
	id_match_target(&t, id, part);
	return api_call_json(&a, "GET", &t, NULL, ret, e);
}

static void add_process(struct columns *t, const json_t *p)
{
	char rss[24], cpu[24];

	units_format_bytes(member_number(p, "rss_bytes", 0), rss, sizeof(rss));
	(void)snprintf(cpu, sizeof(cpu), "%.2fs", (double)member_number(p, "cpu_ms", 0) / 1000);
	columns_add(t, "%llu", (unsigned long long)member_number(p, "pid", 0));
	columns_add(t, "%llu", (unsigned long long)member_number(p, "ppid", 0));
	columns_add(t, "%llu", (unsigned long long)member_number(p, "user_id", 0));
	columns_add(t, "%s", member_text(p, "state", "?"));
	columns_add(t, "%s", rss);
	columns_add(t, "%s", cpu);
	columns_add(t, "%s", member_text(p, "execution_id", "-"));
	columns_add(t, "%s", member_text(p, "command", "?"));
}

static int run_ps(int argc, char **argv)
{
	static const char *const heads[] = { "PID",    "PPID", "UID",	    "STATE",
					     "MEMORY", "CPU",  "EXECUTION", "COMMAND" };
	static struct fields f;
	static struct args_words words;
	OWN_COLUMNS t;
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	int code;

	columns_init(&t, heads, COUNT(heads));
	code = args_read(&verb_ps, argc, argv, &f, &words, 1, 1);
	if (code != ARGS_GO)
		return code;
	if (get(&f, words.at[0], "processes", &answer, &e) < 0)
		return args_fail(&e);
	if (f.common.json) {
		show_json(answer, true, stdout);
		return ARGS_OK;
	}
	for (size_t i = 0; i < json_array_size(member_group(answer, "processes")); i++) {
		const json_t *p = json_array_get(member_group(answer, "processes"), i);
		add_process(&t, p);
	}
	columns_print(&t, SIZE_MAX, 0, stdout);
	return ARGS_OK;
}

const struct verb verb_ps = {
	.name = "ps",
	.usage = "[options] SESSION",
	.summary = "Lists the processes of a session.",
	.text = "",
	.options = options,
	.noptions = COUNT(options),
	.run = run_ps,
};

static int kill_one(const struct fields *f, const struct args_words *words, struct err *e)
{
	OWN_ASK a = { 0 };
	OWN_JSON *body = json_object();
	char session[ID_MATCH_ID_MAX], id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_PATIENCE_MS, e) < 0 ||
	    id_match_session(&a, words->at[0], session, e) < 0)
		return -1;
	if (words->at[1][strspn(words->at[1], "0123456789")] == '\0') {
		if (f->signal != NULL)
			return err_set(e, ERR_INVALID, "--signal is for executions, not for pids");
		id_match_target(&t, session, "processes");
		target_part(&t, words->at[1]);
		return api_call_json(&a, "DELETE", &t, NULL, NULL, e);
	}
	if (id_match_execution(&a, session, words->at[1], id, e) < 0)
		return -1;
	id_match_execution_target(&t, session, id, f->signal == NULL ? NULL : "signals");
	if (f->signal == NULL)
		return api_call_json(&a, "DELETE", &t, NULL, NULL, e);
	if (compose_text(body, "signal", "--signal", f->signal, e) < 0)
		return -1;
	return api_call_json(&a, "POST", &t, body, NULL, e);
}

static int run_kill(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_kill, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	return kill_one(&f, &words, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_kill = {
	.name = "kill",
	.usage = "[options] SESSION EXECUTION|PID",
	.summary = "Ends an execution with all its processes, or one process.",
	.text = "",
	.options = kill_options,
	.noptions = COUNT(kill_options),
	.run = run_kill,
};

static int run_diff(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_diff, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (get(&f, words.at[0], "diff", &answer, &e) < 0)
		return args_fail(&e);
	if (f.common.json) {
		show_json(answer, true, stdout);
		return ARGS_OK;
	}
	for (size_t i = 0; i < json_array_size(member_group(answer, "changes")); i++) {
		const json_t *c = json_array_get(member_group(answer, "changes"), i);
		const char *kind = member_text(c, "kind", "?");

		(void)putchar(strcmp(kind, "added") == 0     ? 'A'
			      : strcmp(kind, "changed") == 0 ? 'C'
			      : strcmp(kind, "deleted") == 0 ? 'D'
							     : '?');
		(void)putchar(' ');
		show_text(member_text(c, "path", "?"), stdout);
		(void)putchar('\n');
	}
	if (member_bool(answer, "truncated"))
		(void)fputs("cordon: there are more changes than the server lists\n", stderr);
	return ARGS_OK;
}

const struct verb verb_diff = {
	.name = "diff",
	.usage = "[options] SESSION",
	.summary = "Prints what was added (A), changed (C) and deleted (D) in a session.",
	.text = "",
	.options = options,
	.noptions = COUNT(options),
	.run = run_diff,
};

/* {"a":1,"b":{"c":"x"}} as lines "a: 1", "b.c: x". */
static void print_tree(const json_t *object, const char *prefix)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		char name[160];

		(void)snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix == '\0' ? "" : ".",
			       key);
		if (json_is_object(value) && strlen(prefix) < 100) {
			print_tree(value, name);
			continue;
		}
		show_text(name, stdout);
		(void)fputs(": ", stdout);
		if (json_is_string(value)) {
			show_text(json_string_value(value), stdout);
			(void)putchar('\n');
		} else {
			show_json(value, false, stdout);
		}
	}
}

static int run_node(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_ASK a = { 0 };
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	struct target t;
	int code = args_read(&verb_node, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	target_init(&t, "/v1/node");
	if (api_call_open(&a, &f.common, API_CALL_PATIENCE_MS, &e) < 0 ||
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
	.summary = "Tells about the server: version, walls, sessions, capacity, pool.",
	.text = "",
	.options = options,
	.noptions = COUNT(options),
	.run = run_node,
};
