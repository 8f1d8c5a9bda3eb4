/* resource_table.c - see resource_table.h. The first part prints tables of objects, the second
 * runs verbs with a second word by a table of rows. A verb of data only (keys, volumes, tenants)
 * has little more than its tables. */
#include "cmd/client/resource_table.h"

#include <stdio.h>
#include <string.h>

#include "cmd/client/columns.h"
#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "lib/base/units.h"

#define ROWS_MAX 10000
#define CELL_MAX 1024

/* "a.b" is the member b of the object a. */
static const json_t *find_member(const json_t *item, const char *name)
{
	const char *dot = strchr(name, '.');

	if (dot == NULL)
		return json_object_get(item, name);
	return json_object_get(json_object_getn(item, name, (size_t)(dot - name)), dot + 1);
}

/* The API's names of moments end in _at. */
static bool is_time(const char *name)
{
	size_t n = strlen(name);

	return n > 3 && strcmp(name + n - 3, "_at") == 0;
}

/* As `cordon ls` does: the time since then, or the time until then. --json has the moment. */
static void format_time(const json_t *item, const char *name, char ret[CELL_MAX])
{
	int64_t at = member_time(item, name), now = show_now_ms();

	if (at < 0)
		(void)snprintf(ret, CELL_MAX, "-");
	else
		show_span(at > now ? at - now : now - at, ret, CELL_MAX);
}

/* The name of the member decides the form, so a table needs no column types. */
static void add_member(struct columns *t, const json_t *item, const char *name)
{
	const json_t *value = find_member(item, name);
	char text[CELL_MAX];

	if (is_time(name))
		format_time(item, name, text);
	else if (json_is_integer(value) &&
		 (strcmp(name, "bytes") == 0 || strcmp(name, "size") == 0))
		units_format_bytes((uint64_t)json_integer_value(value), text, sizeof(text));
	else
		show_json_cell(value, text, sizeof(text));
	columns_add(t, "%s", text);
}

/* heads and names have n elements each. Missing members become "-". */
void resource_table_print(const char *const *heads, const char *const *names, size_t n,
			  const json_t *items)
{
	OWN_COLUMNS t;

	columns_init(&t, heads, n);
	for (size_t i = 0; i < json_array_size(items); i++)
		for (size_t k = 0; k < n; k++)
			add_member(&t, json_array_get(items, i), names[k]);
	columns_print(&t, SIZE_MAX, 0, stdout);
}

/* For people the rows may be shortened. JSON has them as the server sent them, in one object
 * even if they came in pages. */
int resource_table_list(const struct args_common *common, struct api_call *a,
			const struct resource_table *r, struct err *e)
{
	OWN_JSON *items = NULL;
	OWN_JSON *page = NULL;
	struct target t;

	target_init(&t, r->path);
	if (api_call_pages(a, &t, r->member, NULL, ROWS_MAX, &items, e) < 0)
		return -1;
	if (!common->json) {
		for (size_t i = 0; r->shorten != NULL && i < json_array_size(items); i++)
			r->shorten(json_array_get(items, i));
		resource_table_print(r->heads, r->names, r->n, items);
		return 0;
	}
	page = json_pack("{s:O}", r->member, items);
	if (page == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	show_json(page, true, stdout);
	return 0;
}

/* The name is escaped in the path, so it may have any characters. */
int resource_table_remove(struct api_call *a, const char *path, const char *name, struct err *e)
{
	struct target t;

	target_init(&t, path);
	target_part(&t, name);
	return api_call_json(a, "DELETE", &t, NULL, NULL, e);
}

/* `--json` without an answer prints nothing. */
void resource_table_show(const struct args_common *common, const json_t *answer, const char *member)
{
	if (common->json && answer != NULL) {
		show_json(answer, true, stdout);
	} else if (!common->json) {
		show_text(member_text(answer, member, "?"), stdout);
		(void)putchar('\n');
	}
}

/* ---- verbs with a second word */

/* The number of words decides together with the name, so one name may have two rows with
 * different forms. */
static const struct subverb *resource_table_find(const struct subverb *table, size_t n,
						 const struct args_words *words)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words->at[0], table[i].name) == 0 &&
		    words->n == (table[i].run_two != NULL ? 3U
				 : table[i].has_argument  ? 2U
							  : 1U))
			return &table[i];
	return NULL;
}

static bool is_name(const struct subverb *table, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, table[i].name) == 0)
			return true;
	return false;
}

/* The form of one subverb is the part of the usage that begins with its name. */
static int report_form(const struct verb *v, bool known, const char *word)
{
	const char *form = v->usage, *end = strstr(form, " | ");

	if (!known)
		return args_wrong(v, "there is no cordon %s %.40s", v->name, word);
	while (strncmp(form, word, strlen(word)) != 0 && end != NULL) {
		form = end + 3;
		end = strstr(form, " | ");
	}
	return args_wrong(v, "expected: cordon %s %.*s", v->name,
			  end == NULL ? (int)strlen(form) : (int)(end - form), form);
}

/* A row of data only: one request. */
static int send_row(const struct verb *v, const struct subverb *row, const void *fields,
		    struct api_call *a, const char *argument, struct err *e)
{
	bool has_body = strcmp(row->method, "GET") != 0 && strcmp(row->method, "DELETE") != 0;
	OWN_JSON *body = has_body ? json_object() : NULL;
	OWN_JSON *answer = NULL;
	struct target t;

	if (has_body &&
	    (compose_options(body, v->options, v->noptions, fields, e) < 0 ||
	     (row->named != NULL && compose_text(body, row->named, "the name", argument, e) < 0)))
		return -1;
	target_init(&t, row->path);
	if (row->has_argument && row->named == NULL)
		target_part(&t, argument);
	if (api_call_json(a, row->method, &t, body, &answer, e) < 0)
		return -1;
	if (row->shown != NULL && row->shown[0] == '\0')
		show_json(answer, true, stdout);
	else if (row->shown != NULL)
		resource_table_show(fields, answer, row->shown);
	return 0;
}

/* A row has one of list, method, run_two and run, looked for in this order. */
static int run_row(const struct verb *v, const struct subverb *row, const void *fields,
		   struct api_call *a, const struct args_words *words, struct err *e)
{
	if (row->list != NULL)
		return resource_table_list(fields, a, row->list, e);
	if (row->method != NULL)
		return send_row(v, row, fields, a, words->at[1], e);
	if (row->run_two != NULL)
		return row->run_two(fields, a, words->at[1], words->at[2], e);
	return row->run(fields, a, words->at[1], e);
}

/* The command line is checked before any connection. An error about a file of the user is told
 * apart from a wrong option by reads_files. */
int subverb_run(const struct verb *v, const struct subverb *table, size_t n, int argc, char **argv,
		void *fields)
{
	static struct args_words words;
	const struct subverb *found;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(v, argc, argv, fields, &words, 1, 3);

	if (code != ARGS_GO)
		return code;
	found = resource_table_find(table, n, &words);
	if (found == NULL)
		return report_form(v, is_name(table, n, words.at[0]), words.at[0]);
	if (api_call_open(&a, fields, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(v, &e);
	if (run_row(v, found, fields, &a, &words, &e) < 0)
		return found->reads_files ? args_fail(&e) : args_refused(v, &e);
	return ARGS_OK;
}
