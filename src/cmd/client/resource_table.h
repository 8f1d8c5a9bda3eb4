/* resource_table.h - objects that the server lists (keys, tenants, secrets, templates): prints
 * them as a table, and removes one by its name. A verb about such objects is two tables: the
 * columns of its list, and its sub-verbs. */
#pragma once

#include "cmd/client/api_call.h"
#include "cmd/client/args.h"

/* Verbs with a second word, such as `cordon key ls`: one table each of the second words.
 */
struct subverb {
	const char *name;
	bool has_argument; /* exactly one word follows it, or none */
	int (*run)(const void *fields, struct api_call *a, const char *argument, struct err *e);
	/* In place of run: two words follow. */
	int (*run_two)(const void *fields, struct api_call *a, const char *one, const char *two,
		       struct err *e);
	/* ERR_INVALID is about files that it reads. In other rows it is a wrong option value. */
	bool reads_files;
	/* In place of run: print this list. */
	const struct resource_table *list;
	/* In place of run: one request to path. The argument is the member `named` of its body, or,
	 * if NULL, the last part of the path. A body has the options of the verb, too. */
	const char *method, *path, *named;
	/* Printed of the answer without --json: this member. "": all of it, always as JSON. NULL:
	 * nothing. */
	const char *shown;
};

/* Read the command line, connect to the server and run the row that it names. fields begins with
 * a struct args_common. Return the exit code. */
int subverb_run(const struct verb *v, const struct subverb *table, size_t n, int argc, char **argv,
		void *fields);

struct resource_table {
	const char *path;	  /* such as /v1/keys */
	const char *member;	  /* of the answer: the list */
	const char *const *heads; /* of the table */
	const char *const *names; /* of the members in its columns. "a.b": b of the object a */
	size_t n;		  /* of both. At most COLUMNS_MAX */
	void (*shorten)(
		json_t *item); /* for people: changes a row before it is printed. NULL: none */
};

/* Print all, with --json as JSON. */
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
