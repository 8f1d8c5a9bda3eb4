/* complete_values.c - see complete_values.h. Called by `cordon --complete`, which shells start at
 * each press of the Tab key. So it waits WAIT_MS at most, lists VALUES_MAX values, and prints
 * nothing on errors. */
#include "cmd/client/complete_values.h"

#include <string.h>

#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "lib/policy/policy.h"

#define WAIT_MS 2000
#define VALUES_MAX 1000

static void print_presets(FILE *to)
{
	const char *summary = "", *name;

	for (size_t i = 0; (name = policy_preset_name(i, &summary)) != NULL; i++)
		complete_print(name, summary, to);
}

/* A row for each kind of value: the route, the list in its answer, the member to print, the
 * member beside it, and an ending. path NULL: the route is below the session that the command
 * line names. */
static const struct complete_values_list {
	enum complete_want want;
	const char *path, *member;
	const char *name, *description; /* members of each */
	const char *suffix;
} lists[] = {
	{ COMPLETE_SESSIONS, "/v1/sessions", "sessions", "id", "template", "" },
	{ COMPLETE_PLACES, "/v1/sessions", "sessions", "id", "template", ":" },
	{ COMPLETE_EXECUTIONS, NULL, "executions", "id", "state", "" },
	{ COMPLETE_TEMPLATES, "/v1/templates", "templates", "name", "id", "" },
	{ COMPLETE_SNAPSHOTS, "/v1/snapshots", "snapshots", "id", "session_id", "" },
	{ COMPLETE_VOLUMES, "/v1/volumes", "volumes", "name", "state", "" },
	{ COMPLETE_MOUNTS, "/v1/volumes", "volumes", "name", "state", ":" },
	{ COMPLETE_SECRETS, "/v1/secrets", "secrets", "name", "", "" },
};

/* Names come from tenants and may have any characters. complete_print() drops the odd ones, and
 * control characters cut the description. */
static void print_list(struct api_call *a, const struct complete_values_list *l, struct target *t,
		       FILE *to)
{
	OWN_JSON *items = NULL;
	struct err e;

	if (strcmp(l->member, "sessions") == 0)
		target_query(t, "ended", "false");
	if (api_call_pages(a, t, l->member, NULL, VALUES_MAX, &items, &e) < 0)
		return;
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);
		char word[512], about[128];

		(void)snprintf(word, sizeof(word), "%s%s", member_text(item, l->name, ""),
			       l->suffix);
		(void)snprintf(about, sizeof(about), "%s", member_text(item, l->description, ""));
		about[strcspn(about, "\t\n\033")] = '\0';
		complete_print(word, about, to);
	}
}

/* The options of the command line that say which server. */
static void read_connection(const struct verb *v, int argc, char **argv, struct args_common *ret)
{
	for (int i = 0; i + 1 < argc; i++) {
		const char *server = options_find(v, argc - 1 - i, argv + i, "server");
		const char *key = options_find(v, argc - 1 - i, argv + i, "key-file");
		const char *ca = options_find(v, argc - 1 - i, argv + i, "ca-file");

		ret->server = server != NULL ? server : ret->server;
		ret->key_file = key != NULL ? key : ret->key_file;
		ret->ca_file = ca != NULL ? ca : ret->ca_file;
	}
}

/* The session whose executions are asked for: the first argument. */
static const char *first_argument(const struct verb *v, int argc, char **argv)
{
	for (int i = 0; i + 1 < argc; i++) {
		if (argv[i][0] != '-')
			return argv[i];
		if (options_open(v, argv[i]) != NULL)
			i++;
	}
	return "";
}

/* Values of the server first, then the request to the shell for its own, such as files. */
void complete_values(enum complete_want want, const struct verb *v, int argc, char **argv, FILE *to)
{
	struct args_common common = { 0 };
	OWN_API_CALL a = { 0 };
	struct target t;
	struct err e;

	if (want == COMPLETE_PRESETS)
		print_presets(to);
	if (v != NULL)
		read_connection(v, argc, argv, &common);
	for (size_t i = 0; i < COUNT(lists); i++) {
		if (lists[i].want != want || v == NULL)
			continue;
		if (api_call_open(&a, &common, WAIT_MS, &e) < 0)
			break;
		if (lists[i].path != NULL)
			target_init(&t, lists[i].path);
		else
			id_match_target(&t, first_argument(v, argc, argv), lists[i].member);
		print_list(&a, &lists[i], &t, to);
	}
	complete_ask_shell(want, to);
}
