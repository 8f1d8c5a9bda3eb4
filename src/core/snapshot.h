/* snapshot.h - templates that are made from sessions: a snapshot is a version of a template of kind
 * TEMPLATE_SNAPSHOT, whose stack is that of the session with a layer of what it has written on top.
 *
 * It belongs to the tenant of the session. Of the session's template it has the environment, user,
 * working directory, commands and mounts; of the session itself nothing but its files. Its id is
 * "<template id>:default" or, if it has a name, "owner/name:tag"; both are found by
 * templates_find(). A name that exists gets another version. */
#pragma once

#include "layer_fold.h"
#include "session_capture.h"
#include "template_name.h"
#include "template_stack.h"
#include "templates.h"

#define SNAPSHOT_ID_MAX TEMPLATE_NAME_TEXT

struct guest_image;
struct session_memory;

struct snapshot {
	struct completion done; /* on_done and arg are the caller's */
	/* Set when done ends without error; valid during the call. */
	struct template_version *version;
	/* The rest is snapshot.c's. */
	struct core *core;
	struct session_capture capture;
	struct session_memory *memory; /* owned: at a level that keeps it: instead of a capture */
	struct layer_fold fold;
	struct store_actor actor;
	struct template_version *base; /* used, until the end */
	struct template_stack stack;
	struct template_name name;
	bool unnamed, with_memory;
	uint32_t level;
	uint64_t memory_bytes; /* of its guest */
	uint32_t memory_profile;
	char guest[STORE_GUEST_MAX]; /* what the guest was made of: layer_origin.h */
	bool memory_read_only;
	uint64_t keep_ms;
	char tenant[STORE_ID_MAX], source[STORE_ID_MAX];
};

/* name: [owner/]name[:tag]; NULL or "": none. keep_ms: it expires after that; 0: after the setting
 * snapshot_keep. ERR_INVALID: malformed, or of another owner; otherwise as session_capture(). */
void snapshot_make(struct session *s, const char *name, uint64_t keep_ms,
		   const struct store_actor *who, struct snapshot *p);
/* done does not end, and nothing is made. Repeatable. */
void snapshot_cancel(struct snapshot *p);

/* The id of a snapshot; and its name as "owner/name", "" if it has none. */
void snapshot_id(const struct core *c, const struct template_version *v, char ret[SNAPSHOT_ID_MAX]);
void snapshot_name(const struct core *c, const struct template_version *v,
		   char ret[SNAPSHOT_ID_MAX]);

/* The snapshot of that id or name, if it is the tenant's; else NULL. */
struct template_version *snapshot_find(const struct core *c, const struct tenant *t,
				       const char *id);

/* Was it a snapshot of the tenant's that was removed, and that sessions still use? */
bool snapshot_is_removed(const struct core *c, const struct tenant *t, const char *id);

/* Of an id with a tag only that tag goes, else the whole template. Sessions that were made from it
 * are not affected. */
int snapshot_remove(struct core *c, const struct tenant *t, const char *id,
		    const struct store_actor *who, struct err *e) MUST_USE;

/* The owner as it stands in ids. */
const char *snapshot_owner(const struct core *c, const struct template_version *v);

/* Removes some that have expired: the version with all its tags; sessions keep it. True: there may
 * be more. A step of retention.c. */
bool snapshot_expire_piece(struct core *c);

struct snapshot_list {
	const struct template_version **found; /* owned; valid as long as nothing is removed */
	size_t n, cap;
};

/* Snapshots of the tenant, the newest first; source: the session they were made of, name:
 * [owner/]name[:tag]; NULL or "": any. ret is empty before. */
void snapshot_list_read(const struct core *c, const struct tenant *t, const char *source,
			const char *name, struct snapshot_list *ret);
void snapshot_list_release(struct snapshot_list *l);
