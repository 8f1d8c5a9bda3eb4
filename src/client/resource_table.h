/* resource_table.h - objects that the server lists (keys, tenants, secrets, templates): prints them
 * as a table, and removes one by its name. */
#pragma once

#include "args.h"
#include "api_call.h"

struct resource_table {
	const char *path;	  /* such as /v1/keys */
	const char *member;	  /* of the answer: the list */
	const char *const *heads; /* of the table */
	const char *const *names; /* of the members in its columns; "a.b": b of the object a */
	size_t n;		  /* of both; at most COLUMNS_MAX */
};

/* Prints all, with --json as JSON. */
int resource_table_list(const struct args_common *common, struct api_call *a,
			const struct resource_table *r, struct err *e) MUST_USE;
int resource_table_remove(struct api_call *a, const char *path, const char *name,
			  struct err *e) MUST_USE;
/* A created or requested object: as JSON, or only its most useful member. */
void resource_table_show(const struct args_common *common, const json_t *answer,
			 const char *member);

/* A table on stdout: a row for each item, a column for each of n members. Members "bytes" and
 * "size" are printed with a unit. */
void resource_table_print(const char *const *heads, const char *const *names, size_t n,
			  const json_t *items);
