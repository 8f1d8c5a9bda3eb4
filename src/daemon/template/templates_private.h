/* templates_private.h - the structure of a version, for templates.c, template_add.c and
 * template_pools.c, and for those files of the core that read its row. */
#pragma once

#include "daemon/node/core_private.h"
#include "daemon/store/store_template.h"

struct template_version {
	struct template_version *next, **link; /* list.h, by tenant, name and version */
	struct core *core;
	struct store_template row;	 /* its texts are its own */
	struct store_template_tag *tags; /* owned. Without "default" */
	size_t ntags;
	size_t bytes;			       /* of the row's texts */
	unsigned sessions;		       /* that use it */
	bool payer_due;			       /* retired, and its sessions may be others' now */
	const struct session *oldest;	       /* of other tenants, while payers are looked for */
	bool has_own;			       /* a session of its tenant, at the same time */
	struct level_pool *pools[CELL_LEVELS]; /* owned: template_pools.c. NULL: unused so far */
};

/* Finished cells of one level. */
struct level_pool {
	struct template_version *version;
	struct pool *pool;
	struct store_session like; /* what its cells are made for */
	bool like_set;
};

/* templates.c: a version outside the list. The row is copied and gets an id and a time. */
struct template_version *template_new(struct core *c, const struct store_template *row,
				      struct err *e) MUST_USE;
void template_free(struct template_version *v);
/* Make it current: earlier versions of its name are not any more. */
void template_list_in(struct template_version *v);
/* The tag "default" means it from now on. */
void template_make_current(struct template_version *v);
/* No session gets it any more. */
void template_retire(struct template_version *v);

/* template_tags.c: the tag means this version, and no other of its template. */
void template_tag_list_in(struct template_version *v, const struct store_template_tag *tag);
int templates_load_tags(struct core *c, struct err *e) MUST_USE;

/* templates.c: is there room for this version of the row's tenant ("": the operator)? */
int templates_check_room(const struct core *c, const struct store_template *row,
			 struct err *e) MUST_USE;

/* template_pools.c: gives the template of sessions that name none a pool. Others get one when they
 * are used for the first time. */
void template_make_pool(struct template_version *v);
void template_close_pools(struct template_version *v);
/* End all cells made in advance. The next adaption makes others. */
void template_pools_empty(struct core *c);
bool template_pools_are_idle(const struct template_version *v);
void template_free_pools(struct template_version *v);
/* The request for a cell that tries whether the template works, with a new id. It has the level
 * container, whose files are those of the other levels. */
int template_plan(struct template_version *v, struct keeper_create *ret, struct err *e) MUST_USE;
