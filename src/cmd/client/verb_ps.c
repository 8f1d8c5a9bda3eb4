/* verb_ps.c - cordon ps: the processes of a session, as a table. The server reads them at the
 * time of the request, so the list is already old when it is printed. With --json it is the
 * server's answer. */
#include "cmd/client/columns.h"
#include "cmd/client/member.h"
#include "cmd/client/id_match.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/units.h"

struct ps_fields {
	struct args_common common;
};

static const struct option options[] = {
	ARGS_COMMON(struct ps_fields),
};

/* One cell for each head. All values come from the session, and columns_add() escapes them. */
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

/* The table is made first, so that every return releases it. */
static int ps_run(int argc, char **argv)
{
	static const char *const heads[] = { "PID",    "PPID", "UID",	    "STATE",
					     "MEMORY", "CPU",  "EXECUTION", "COMMAND" };
	static struct ps_fields f;
	static struct args_words words;
	OWN_COLUMNS t;
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	int code;

	columns_init(&t, heads, COUNT(heads));
	code = args_read(&verb_ps, argc, argv, &f, &words, 1, 1);
	if (code != ARGS_GO)
		return code;
	if (session_part_get(&f.common, words.at[0], "processes", &answer, &e) < 0)
		return args_refused(&verb_ps, &e);
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
	.examples = "cordon ps ID\n",
	.options = options,
	.noptions = COUNT(options),
	.run = ps_run,
};
