#include "resource_table.h"

#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "member.h"
#include "show.h"
#include "show_json.h"
#include "units.h"

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

static void add_member(struct columns *t, const json_t *item, const char *name)
{
	const json_t *value = find_member(item, name);
	char text[CELL_MAX];

	if (json_is_integer(value) && (strcmp(name, "bytes") == 0 || strcmp(name, "size") == 0))
		units_format_bytes((uint64_t)json_integer_value(value), text, sizeof(text));
	else
		show_json_cell(value, text, sizeof(text));
	columns_add(t, "%s", text);
}

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
		resource_table_print(r->heads, r->names, r->n, items);
		return 0;
	}
	page = json_pack("{s:O}", r->member, items);
	if (page == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	show_json(page, true, stdout);
	return 0;
}

int resource_table_remove(struct api_call *a, const char *path, const char *name, struct err *e)
{
	struct target t;

	target_init(&t, path);
	target_part(&t, name);
	return api_call_json(a, "DELETE", &t, NULL, NULL, e);
}

void resource_table_show(const struct args_common *common, const json_t *answer, const char *member)
{
	if (common->json && answer != NULL) {
		show_json(answer, true, stdout);
	} else if (!common->json) {
		show_text(member_text(answer, member, "?"), stdout);
		(void)putchar('\n');
	}
}
