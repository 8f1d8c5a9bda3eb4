/* store_template.h - templates: what sessions are made from. See store.h for what holds for all
 * rows.
 *
 * A row is one version of a template. At most one version of a name is current: the one that new
 * sessions get. Others may have tags (store_template_tag.h). The rest is kept for the sessions that
 * were made from them, and the core deletes them when the last of those has ended. The store does
 * not know what kinds and levels mean. */
#pragma once

#include "store.h"

#define STORE_TEMPLATE_ID_MAX 21 /* 20 lower-case letters and digits, and NUL */
#define STORE_TAG_MAX 129

struct store_template {
	char id[STORE_ID_MAX];	   /* "tpl_..."; sessions refer to it */
	char tenant[STORE_ID_MAX]; /* "": the operator's, for all tenants */
	char name[STORE_NAME_MAX];
	char template_id[STORE_TEMPLATE_ID_MAX]; /* the same for all versions of a name */
	uint64_t version;			 /* of that name, from 1 on */
	bool current;
	uint32_t kind, level;
	uint64_t created_ms;
	const char *layers; /* a line for each directory */
	const char *mounts; /* as in a session's row */
	const void *env;    /* NAME=value, each with its NUL */
	size_t env_len;
	const char *user, *workdir;		   /* of executions that name none; "": the usual */
	const char *start_command, *ready_command; /* "": none */
	bool start_restart;			   /* the start command is run again when it ends */
	bool interpreter;	   /* it is cordon-interpreter: gets the environment at its input */
	char source[STORE_ID_MAX]; /* of a snapshot: the session it was made of; else "" */
	bool public;		   /* of a tenant's: others may use it, too */
	uint64_t bytes;		   /* of its layers when it was made; 0: not known */
	const char *provenance;	   /* lines "word\ttext": what it was made of */
	const char *offered_command; /* what its image would start: a JSON array; "": nothing */
	uint64_t cpu_millis, memory_bytes; /* of sessions that ask for none; 0: the usual */
	uint64_t expires_ms;		   /* of a snapshot: it is removed then; 0: it is not */
	uint32_t memory_profile; /* of a snapshot with memory: what its programs run with */
	bool memory_read_only;

	void *owned; /* the texts of a row from store_template_own() */
};

typedef int store_template_fn(const struct store_template *row, void *cookie);

/* Inserts the row as the current version of its name; the version before is not current any more.
 * Sets the row's version and current. */
int store_template_insert(struct store *s, struct store_template *row, struct err *e) MUST_USE;

/* The same, but with these tags, of which one may be "default"; without that it is not current. A
 * row without a template_id gets that of its name's versions or, for a new name, a new one. */
int store_template_insert_tagged(struct store *s, struct store_template *row,
				 const char *const *tags, size_t ntags, struct err *e) MUST_USE;

/* The version of this id is the current one from now on, and no other of its name. */
int store_template_make_current(struct store *s, const struct store_template *row,
				struct err *e) MUST_USE;

/* Whether other tenants may use it: of all versions. */
int store_template_set_public(struct store *s, const char *template_id, bool public,
			      struct err *e) MUST_USE;

/* The version of this id is not current any more: no new session gets it. */
int store_template_retire(struct store *s, const char *id, struct err *e) MUST_USE;

/* Deletes a version that is not current and has no tag. ERR_NOT_FOUND if there is none. */
int store_template_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* All versions, by name. */
int store_template_each(struct store *s, store_template_fn *fn, void *cookie,
			struct err *e) MUST_USE;

/* Moves texts that the row borrows into a block of its own. */
int store_template_own(struct store_template *row, struct err *e) MUST_USE;
/* Of its texts, NULL or not. */
size_t store_template_bytes(const struct store_template *row);
void store_template_release(struct store_template *row);
