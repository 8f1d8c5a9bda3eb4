/* templates.h - the templates of sessions, as rows that can change while the server runs.
 *
 * A template has a name and versions (store_template.h). New sessions get the current version of a
 * name. A session keeps its version until it ends, even if the name then means another. Each
 * version in memory counts the sessions that use it, and has a pool of finished cells. A version is
 * deleted when it is not current and has neither a tag nor a session.
 *
 * A template belongs to the operator (its versions have no tenant) or to a tenant. All tenants may
 * use the operator's. Others may use a tenant's public ones, by id or by "owner/name".
 *
 * There is always a template "host": the machine's own /usr, as the supervisor opened it, and a
 * variant with a code interpreter (TEMPLATES_INTERPRETER). Others are directories that the operator
 * prepared in template_dir. cordond never opens these: it names an entry of the directory, and the
 * keeper opens and checks it again for each cell (doc/decisions/020-templates.md). */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_template.h"

/* The numbers are in rows of the store: new ones come at the end. */
enum template_kind {
	TEMPLATE_HOST,
	TEMPLATE_LAYERS,   /* an entry of template_dir */
	TEMPLATE_STACK,	   /* layers of the storage folder: template_stack.h */
	TEMPLATE_SNAPSHOT, /* the same, made from a session */
	TEMPLATE_KINDS
};

/* Versions, including those used only by old sessions: of one tenant, of all together, and those
 * that a tenant may have when others have used up the number of all. */
#define TEMPLATES_TENANT_MAX 1024
#define TEMPLATES_MAX 4096
#define TEMPLATES_SHARE 64
#define TEMPLATES_TENANT_BYTES (32U << 20) /* texts of all versions of a tenant: environments */
#define TEMPLATES_TAGS_MAX 64		   /* of a template */
#define TEMPLATES_ADDING_MAX 4		   /* at a time */
#define TEMPLATES_TEXT_MAX 4095		   /* of user, workdir and a mount's path */
#define TEMPLATES_HOST "host"
/* The layers of "host", with the server of the code interpreter as its start command. */
#define TEMPLATES_INTERPRETER "code-interpreter-v1"

struct core_metrics_pool;
struct live_cell;
struct template_version;

const struct store_template *template_row(const struct template_version *v);
/* A snapshot at a level that keeps memory: sessions begin with a guest's memory and nothing else,
 * so its layers alone do not have its files. */
bool template_has_memory(const struct template_version *v);
/* How many live sessions use it. */
unsigned template_sessions(const struct template_version *v);
/* "host", "layers", "stack" or "snapshot". "unknown" for a kind of a newer version. */
const char *template_kind_name(uint32_t kind);

/* The version that a tenant's sessions may be made from: [owner/]name[:tag] or id[:tag]
 * (template_name.h). A bare name is one of the tenant's own or, if there is none, of the
 * operator's. t NULL: only the operator's. NULL: there is none, or it is another's and not public.
 */
struct template_version *templates_find(const struct core *c, const struct tenant *t,
					const char *name);
/* Find a version for a request about all versions of a name: without a tag it need not have
 * `default`. */
struct template_version *templates_find_any(const struct core *c, const struct tenant *t,
					    const char *name);
/* ERR_NOT_FOUND, for a name that templates_find() does not find. If the template has other tags,
 * the message has one of them. */
int templates_missing(const struct core *c, const struct tenant *t, const char *name,
		      struct err *e) MUST_USE;
/* The version of one owner (tenant "": the operator), by name and tag ("": default). */
struct template_version *templates_of(const struct core *c, const char *tenant, const char *name,
				      const char *tag);
/* The version of a template_id. */
struct template_version *templates_by_template_id(const struct core *c, const char *id,
						  const char *tag);
/* May sessions of the tenant be made from it? May the tenant change it? */
bool template_is_usable(const struct template_version *v, const struct tenant *t);
bool template_is_own(const struct core *c, const struct template_version *v,
		     const struct tenant *t);

/* Tags of a version, without "default". */
size_t template_tags(const struct template_version *v, const struct store_template_tag **ret);
/* tag "" is "default". */
bool template_has_tag(const struct template_version *v, const char *tag);

/* Call see() for versions that the tenant may use, current or with a tag, without snapshots. t
 * NULL: all versions. In the order of owners and names. */
void templates_each(const struct core *c, const struct tenant *t,
		    void (*see)(const struct template_version *v, void *arg), void *arg);
/* templates_each() in pieces: versions behind the template of that owner and name ("" and "": all),
 * until see() returns false. Versions of one template are neighbours. False: see() did. */
bool templates_each_behind(const struct core *c, const struct tenant *t, const char *owner,
			   const char *name,
			   bool (*see)(const struct template_version *v, void *arg), void *arg);

/* Is it a name for a new template: [a-z0-9][a-z0-9._-]*, 63 bytes at most? */
bool templates_is_name(const char *name);
/* Is it another name of the default template? mcp-gateway is what E2B's clients ask for when they
 * are given MCP servers: every cell has the program of that name. */
bool templates_is_alias(const char *name);
/* Is it a name that only templates of the server itself have? */
bool templates_is_reserved(const char *name);

/* May a template have this name? ERR_INVALID: it is malformed. ERR_CONFLICT: the server has it. */
int templates_check_name(const struct core *c, const char *name, struct err *e) MUST_USE;

/* Add a template of the operator's or, if the name exists, its next version. The row's name, kind,
 * level, layers, mounts, env, user, workdir and commands are read. Texts are copied. A cell is made
 * of it first, so that every added template can have sessions. -1: the row is malformed or there
 * are too many, and w is not used. Else w ends when it is added, or with the reason why not.
 * Cancelling w changes nothing. */
int templates_add(struct core *c, const struct store_template *row, const struct store_actor *who,
		  struct completion *w, struct err *e) MUST_USE;

/* Layers on disk without a row so far. */
struct template_new_layers {
	const struct store_layer *rows;
	size_t n;
};

/* Add a version, without a cell made of it first: rows of new layers (made may be NULL), its row
 * with the tenant, its uses of layers, tags (none: "default") and the event, all or nothing. The id
 * and the template_id may be given. NULL and the reason. */
struct template_version *templates_insert(struct core *c, const struct store_template *row,
					  const char *const *tags, size_t ntags,
					  const struct template_new_layers *made,
					  const struct store_actor *who, struct err *e) MUST_USE;

/* Add a version of the tenant's (of the operator's own: for all) with the layers and settings of
 * another template, and the name (perhaps with a tag), the level and the commands of `ask`. */
struct template_version *templates_derive(struct core *c, const struct tenant *t,
					  const struct template_version *from,
					  const struct store_template *ask,
					  const struct store_actor *who, struct err *e) MUST_USE;

/* Point the tags to this version. "default" may be one of them. */
int templates_tag(struct core *c, struct template_version *v, const char *const *tags, size_t ntags,
		  const struct store_actor *who, struct err *e) MUST_USE;
/* ERR_NOT_FOUND: the version does not have the tag. ERR_INVALID: it is "default". */
int templates_untag(struct core *c, struct template_version *v, const char *tag,
		    const struct store_actor *who, struct err *e) MUST_USE;
/* Remove one version with all its tags, because it has expired. Other versions of the name stay. v
 * may be gone afterwards. Write the event snapshot.expired. */
int templates_expire(struct core *c, struct template_version *v, struct err *e) MUST_USE;
/* Whether other tenants may use the template. An event says so if that changed. */
int templates_set_public(struct core *c, struct template_version *v, bool public,
			 const struct store_actor *who, struct err *e) MUST_USE;

/* ERR_CONFLICT: the template is "host", or the one of sessions that name none. */
int templates_check_removal(const struct core *c, const struct template_version *v,
			    struct err *e) MUST_USE;
/* Remove a template, all versions and tags of it, and the rows of its builds, in one transaction:
 * no new session gets one. No build of it may run. v may be gone afterwards. */
int templates_remove(struct core *c, struct template_version *v, const struct store_actor *who,
		     struct err *e) MUST_USE;

/* ---- for the core's own files */

/* Read all versions. */
int templates_load(struct core *c, struct err *e) MUST_USE;
/* template_add.c: read all versions, and add the templates that every server has to a store that
 * does not have them. ERR_NOT_FOUND: the template of sessions that name none does not exist. */
int templates_setup(struct core *c, struct err *e) MUST_USE;
void templates_free(struct core *c);

/* The version of that id, of a session's row. NULL: it is not there. */
struct template_version *templates_by_id(const struct core *c, const char *id);

/* A session uses it from now on, or no longer. Both take NULL. */
struct template_version *template_use(struct template_version *v);
void template_unuse(struct template_version *v);

/* Delete unneeded versions. Only after recovery: earlier sessions are counted then. */
void templates_collect(struct core *c);

/* template_add.c: the keepers have other layers of the template "host" from now on (struct
 * core_host): make new versions of the templates of these layers alone, and end cells made in
 * advance. Earlier requests to cordon-storage use the former ones. */
void templates_host_changed(struct core *c, const char *name, uint64_t bytes);

/* template_pools.c: the pools of all versions. */
void templates_fill(struct core *c);
/* Once a second. All pools together grow to pool_max. */
void templates_adapt(struct core *c);
void templates_close(struct core *c);
bool templates_are_idle(const struct core *c);
/* The present and past counts of all pools, and of one version's. */
void templates_pools(const struct core *c, struct core_metrics_pool *ret);
void template_pool(const struct template_version *v, struct core_metrics_pool *ret);
/* A finished cell for the session, or NULL. */
struct live_cell *templates_claim(struct session *s);
