/* build.h - builds of templates: a client asks for one (it waits), uploads archives, then starts it
 * with a recipe. Its steps are run, and in the end a version of the template is there.
 *
 * The row in the store (store_build.h) is the truth: status and log are read from it. A build that
 * runs is also in memory. A build of a daemon that died is an error as soon as the next one starts.
 * Called by the interfaces. build_part is given to core_new(). */
#pragma once

#include "daemon/images/recipe.h"
#include "daemon/images/template_ref.h"
#include "daemon/node/core.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_build.h"

struct session_part;
struct store_session;
struct template_version;

/* The numbers are in rows of the store. */
enum build_status { BUILD_WAITING, BUILD_BUILDING, BUILD_READY, BUILD_ERROR, BUILD_STATUSES };
enum build_level { BUILD_DEBUG, BUILD_INFO, BUILD_WARN, BUILD_FAULT, BUILD_LEVELS };

#define BUILD_TAGS_MAX 32
#define BUILD_IMAGE_PREFIX "image." /* of the names of images that builds have pulled */
#define BUILD_WAITING_MAX 64	    /* of a tenant */
#define BUILD_NAMES_MAX 1024	    /* templates of a tenant with builds */

extern const struct session_part build_part;

/* "waiting", .... "debug", "info", "warn", "error". */
const char *build_status_name(uint32_t status);
const char *build_level_name(uint32_t level);

struct build_ask {
	const char *name;
	unsigned ntags;
	const char *tags[BUILD_TAGS_MAX];
	uint64_t cpus, memory_mb; /* 0: default */
	uint64_t free_mb;	  /* that the disk must have above its reserve. 0: any */
};

/* A new build, which waits for its recipe. *ret is the row. build_release() it. ERR_INVALID,
 * ERR_DENIED (the name is the server's), ERR_CONFLICT, REASON_QUOTA_BUILDS. */
int build_request(struct core *c, struct tenant *t, const struct build_ask *ask,
		  const struct store_actor *who, struct store_build *ret, struct err *e) MUST_USE;

/* Start it. *Recipe is taken over in any case. When this returns 0, the row says `building`.
 * ERR_NOT_FOUND. ERR_INVALID: it does not wait. REASON_QUOTA_BUILDS. */
int build_start(struct core *c, struct tenant *t, const char *template_id, const char *id,
		struct recipe *recipe, const struct store_actor *who, struct err *e) MUST_USE;

/* A build of that tenant and template. ERR_NOT_FOUND. */
int build_get(struct core *c, const struct tenant *t, const char *template_id, const char *id,
	      struct store_build *ret, struct err *e) MUST_USE;
/* End builds of a template that run or wait. reason: for their rows. */
void build_cancel_all(struct core *c, const char *template_id, const char *reason);
/* End one. ERR_CONFLICT: it has ended. */
int build_cancel(struct core *c, const struct tenant *t, const char *template_id, const char *id,
		 struct err *e) MUST_USE;

/* Forget the results of steps that later builds of the tenant would use again. build_cache.c */
int build_cache_clear(struct core *c, const struct tenant *t, struct err *e) MUST_USE;
/* Delete the rows of a template's builds. Their logs and archives follow, in pieces. build.c
 */
int build_delete_template(struct core *c, const char *template_id, struct err *e) MUST_USE;
/* What a client's DELETE of a template means: all its versions go, then its builds, ended if they
 * run, with their logs and uploads. v: any version. NULL: it never got one. ERR_CONFLICT: it is the
 * server's. */
int build_remove_template(struct core *c, const char *template_id, struct template_version *v,
			  const struct store_actor *who, struct err *e) MUST_USE;

/* Is it the session of a build's step? build_cell.c */
bool build_has_session(const struct store_session *row);

/* Call fn for each line of `tags`. */
void build_tags_each(const char *tags, void (*fn)(const char *tag, void *arg), void *arg);
bool build_has_tag(const char *tags, const char *tag);

/* The namespace of a tenant, in which its templates have their names. */
void build_namespace(const struct tenant *t, char ret[STORE_NAME_MAX]);

/* ---- archives: build_upload.c */

/* Is there one? Mark it as used. */
bool build_upload_there(struct core *c, const char *tenant, const char *template_id,
			const char *hash);

struct build_upload; /* one being received */

/* Begin to receive one, of at most core_config()->upload_max bytes. name: tenant, template and
 * hash, the rest zero. w ends once: when the archive is there, in place of the former one, or with
 * the reason why not, which may be before all of it has come. on_room(arg): more can be taken.
 * NULL: REASON_STORAGE_FULL, ERR_SYSTEM. w was not begun. */
struct build_upload *build_upload_begin(struct core *c, const struct store_build_upload *name,
					struct completion *w, void (*on_room)(void *arg), void *arg,
					struct err *e) MUST_USE;
/* Take up to len bytes, and return how many: on_room follows if fewer. */
size_t build_upload_put(struct build_upload *u, const uint8_t *data, size_t len);
/* All of it has come. Called again from on_room until it returns true. */
bool build_upload_end(struct build_upload *u);
/* Free it. If w has not ended, nothing is kept, and w does not end. Take NULL. */
void build_upload_drop(struct build_upload *u);
