/* store_template.h - templates: what sessions are made from. See store.h for what holds for all
 * rows.
 *
 * A row is one version of a template. At most one version of a name is current: the one that new
 * sessions get. Others may have tags. The rest is kept for the sessions made from them, and the
 * core deletes them when the last of those has ended. The store does not know what kinds and levels
 * mean. */
#pragma once

#include "daemon/store/store.h"

#define STORE_TEMPLATE_ID_MAX 21 /* 20 lower-case letters and digits, and NUL */
#define STORE_TAG_MAX 129
#define STORE_TAG_DEFAULT "default"

struct store_template {
	char id[STORE_ID_MAX];	   /* "tpl_...". Sessions refer to it */
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
	const char *user, *workdir;		   /* of executions that name none. "": the usual */
	const char *start_command, *ready_command; /* "": none */
	bool start_restart;			   /* the start command is run again when it ends */
	bool interpreter;	   /* it is cordon-interpreter: gets the environment at its input */
	char source[STORE_ID_MAX]; /* of a snapshot: the session it was made of. Else "" */
	bool public;		   /* of a tenant's: others may use it, too */
	uint64_t bytes;		   /* of its layers when it was made. 0: not known */
	const char *provenance;	   /* lines "word\ttext": its sources */
	const char *offered_command; /* what its image would start: a JSON array. "": nothing */
	uint64_t cpu_millis, memory_bytes; /* of sessions that ask for none. 0: the usual */
	uint64_t expires_ms;		   /* of a snapshot: it is removed then. 0: it is not */
	uint32_t memory_profile; /* of a snapshot with memory: what its programs run with */
	bool memory_read_only;
	/* The tenant for which it counts, if only sessions of others keep it. "": its own. */
	char payer[STORE_ID_MAX];

	void *owned; /* the texts of a row from store_template_own() */
};

typedef int store_template_fn(const struct store_template *row, void *cookie);

/* Insert the row as the current version of its name. The version before is not current any more.
 * Set the row's version and current. */
int store_template_insert(struct store *s, struct store_template *row, struct err *e) MUST_USE;

/* As above, but with these tags. One may be "default". Without "default" it is not current. A row
 * without a template_id gets that of its name's versions or, for a new name, a new one. */
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

/* It counts for this tenant from now on. "": for its own. */
int store_template_set_payer(struct store *s, const char *id, const char *payer,
			     struct err *e) MUST_USE;

/* Delete a version without a tag, other than the current one. ERR_NOT_FOUND if there is none. */
int store_template_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* All versions, by name. */
int store_template_each(struct store *s, store_template_fn *fn, void *cookie,
			struct err *e) MUST_USE;

/* Move texts that the row borrows into a block of its own. */
int store_template_own(struct store_template *row, struct err *e) MUST_USE;
/* Of its texts, NULL or not. */
size_t store_template_bytes(const struct store_template *row);
void store_template_release(struct store_template *row);

/* ---- tags: names of versions of a template
 *
 * A tag belongs to a template (store_template.template_id) and points to one of its versions. The
 * tag "default" has no row: it points to the current version. A version with a tag is kept. */

struct store_template_tag {
	char template_id[STORE_TEMPLATE_ID_MAX];
	char tag[STORE_TAG_MAX];
	char version[STORE_ID_MAX]; /* store_template.id */
	uint64_t created_ms;	    /* when it got this meaning */
};

typedef int store_template_tag_fn(const struct store_template_tag *row, void *cookie);

/* The tag means this version from now on, with any meaning before. Not for "default". */
int store_template_tag_set(struct store *s, const struct store_template_tag *row,
			   struct err *e) MUST_USE;

/* ERR_NOT_FOUND if there is no such tag. */
int store_template_tag_delete(struct store *s, const char *template_id, const char *tag,
			      struct err *e) MUST_USE;
/* All of a template. Not an error if there are none. */
int store_template_tag_clear(struct store *s, const char *template_id, struct err *e) MUST_USE;

int store_template_tag_each(struct store *s, store_template_tag_fn *fn, void *cookie,
			    struct err *e) MUST_USE;
