/* build_gone.c - what builds leave is removed in pieces: logs of builds that are gone or whose
 * tenant has too many, and archives of templates that are gone.
 *
 * The rows of builds go at once, with their template. Their logs may have ten thousand entries
 * each, so those are only noted (store_build_gone), and a job of the node removes them, also after
 * a restart. */
#include <string.h>

#include "build_private.h"
#include "build_upload.h"
#include "log.h"

#define ENTRIES_PIECE 64
#define LOGS_AT_ONCE 8 /* that one build pushes out, at its end */

static bool remove_some(struct core *c, const struct store_build_gone *g, bool *ret_more)
{
	struct err e;

	*ret_more = false;
	if (g->kind == STORE_BUILD_GONE_UPLOADS) {
		if (!build_upload_delete_of(c, g->tenant, g->id, ret_more))
			return false;
	} else if (store_build_log_remove(core_store(c), g->id, ENTRIES_PIECE, ret_more, &e) < 0) {
		return false;
	}
	return *ret_more || store_build_gone_delete(core_store(c), g, &e) == 0;
}

/* False if the store refuses: the next note or the next start goes on. */
static bool on_piece(struct job *j)
{
	struct core *c = j->arg;
	struct store_build_gone g;
	struct err e;
	bool more;

	return store_build_gone_any(core_store(c), &g, &e) == 0 && remove_some(c, &g, &more);
}

void build_gone_start(struct core *c)
{
	struct job *j = &builds_of(c)->gone;

	j->on_piece = on_piece;
	j->arg = c;
	core_job_add(c, NULL, j);
}

void build_gone_release(struct core *c)
{
	core_job_cancel(c, &builds_of(c)->gone);
}

int build_delete_template(struct core *c, const char *template_id, struct err *e)
{
	if (store_build_delete_template(core_store(c), template_id, e) < 0)
		return -1;
	build_gone_start(c);
	return 0;
}

void build_gone_trim(struct core *c, const char *tenant)
{
	uint64_t bytes = 0;
	struct err e;

	for (unsigned n = 0; n < LOGS_AT_ONCE; n++) {
		if (store_build_log_sum(core_store(c), tenant, &bytes, &e) < 0 ||
		    bytes <= BUILD_LOGS_TENANT_MAX)
			return;
		if (store_build_log_drop(core_store(c), tenant, &e) < 0) {
			if (e.code != ERR_NOT_FOUND)
				log_warn("the log of an old build stays", "error=%s", e.msg);
			return;
		}
		build_gone_start(c);
	}
}
