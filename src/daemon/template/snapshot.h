/* snapshot.h - templates made from sessions: a snapshot is a version of a template of kind
 * TEMPLATE_SNAPSHOT. Its stack is the session's, with a layer of the session's changes on top.
 *
 * It belongs to the tenant of the session. It takes the environment, user, working directory,
 * commands and mounts from the session's template, and only files from the session itself. Its id
 * is "<template id>:default" or, if it has a name, "owner/name:tag". templates_find() finds both.
 * An existing name gets another version. */
#pragma once

#include "daemon/session/session_capture.h"
#include "daemon/template/template_name.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"

#define SNAPSHOT_ID_MAX TEMPLATE_NAME_TEXT

struct guest_image;
struct session_memory;

struct snapshot {
	struct completion done; /* on_done and arg are the caller's */
	/* Set when done ends without error. Valid during the call. */
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

/* name: [owner/]name[:tag]. NULL or "": none. keep_ms: it expires after that. 0: after the setting
 * snapshot_keep. ERR_INVALID: malformed, or of another owner. Otherwise as session_capture(). */
void snapshot_make(struct session *s, const char *name, uint64_t keep_ms,
		   const struct store_actor *who, struct snapshot *p);
/* done does not end, and nothing is made. Repeatable. */
void snapshot_cancel(struct snapshot *p);

/* The id of a snapshot, and its name as "owner/name", "" if it has none. */
void snapshot_id(const struct core *c, const struct template_version *v, char ret[SNAPSHOT_ID_MAX]);
void snapshot_name(const struct core *c, const struct template_version *v,
		   char ret[SNAPSHOT_ID_MAX]);

/* The snapshot of that id or name, if it is the tenant's. Otherwise NULL. */
struct template_version *snapshot_find(const struct core *c, const struct tenant *t,
				       const char *id);

/* Was it a snapshot of the tenant, now removed, but still used by sessions? */
bool snapshot_is_removed(const struct core *c, const struct tenant *t, const char *id);

/* Remove only the tag of an id with one, otherwise the whole template. Its sessions are not
 * affected. */
int snapshot_remove(struct core *c, const struct tenant *t, const char *id,
		    const struct store_actor *who, struct err *e) MUST_USE;

/* The owner as it stands in ids. */
const char *snapshot_owner(const struct core *c, const struct template_version *v);

/* Remove some expired ones: the version with all its tags. Sessions keep it. True: there may be
 * more. A step of retention.c. */
bool snapshot_expire_piece(struct core *c);

struct snapshot_list {
	const struct template_version **found; /* owned. Valid as long as nothing is removed */
	size_t n, cap;
};

/* Snapshots of the tenant, the newest first. source: their session, name: [owner/]name[:tag]. NULL
 * or "": any. ret is empty before. */
void snapshot_list_read(const struct core *c, const struct tenant *t, const char *source,
			const char *name, struct snapshot_list *ret);
void snapshot_list_release(struct snapshot_list *l);
