/* store_template.h - templates: what sessions are made from. See store.h for what holds for all
 * rows.
 *
 * A row is one version of a template. At most one version of a name is current: the one that new
 * sessions get. The others are kept for the sessions that were made from them, and the core deletes
 * them when the last of those has ended. The store does not know what kinds and levels mean. */
#pragma once

#include "store.h"

struct store_template {
	char id[STORE_ID_MAX];	   /* "tpl_..."; sessions refer to it */
	char tenant[STORE_ID_MAX]; /* "": the operator's, for all tenants */
	char name[STORE_NAME_MAX];
	uint64_t version; /* of that name, from 1 on */
	bool current;
	uint32_t kind, level;
	uint64_t created_ms;
	const char *layers; /* a line for each directory */
	const char *mounts; /* as in a session's row */
	const void *env;    /* NAME=value, each with its NUL */
	size_t env_len;
	const char *user, *workdir;		   /* of executions that name none; "": the usual */
	const char *start_command, *ready_command; /* "" in this version */
	char source[STORE_ID_MAX]; /* of a snapshot: the session it was made of; else "" */

	void *owned; /* the texts of a row from store_template_own() */
};

typedef int store_template_fn(const struct store_template *row, void *cookie);

/* Inserts the row as the current version of its name; the version before is not current any more.
 * Sets the row's version and current. */
int store_template_insert(struct store *s, struct store_template *row, struct err *e) MUST_USE;

/* The version of this id is not current any more: no new session gets it. */
int store_template_retire(struct store *s, const char *id, struct err *e) MUST_USE;

/* Deletes a version that is not current. ERR_NOT_FOUND if there is none. */
int store_template_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* All versions, by name. */
int store_template_each(struct store *s, store_template_fn *fn, void *cookie,
			struct err *e) MUST_USE;

/* Moves texts that the row borrows into a block of its own. */
int store_template_own(struct store_template *row, struct err *e) MUST_USE;
void store_template_release(struct store_template *row);
