/* build.c - see build.h: builds are started, cancelled, ended, and the part of the core that keeps
 * them. */
#include "daemon/images/build.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/images/build_cell.h"
#include "daemon/images/build_private.h"
#include "daemon/images/build_upload.h"
#include "daemon/session/session_hooks.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

/* ---- messages of a build: entries of its log in the store, bounded in number and bytes.
 *
 * The first entry that does not fit is replaced by one that says so. */

static const char *const level_names[BUILD_LEVELS] = { "debug", "info", "warn", "error" };

const char *build_level_name(uint32_t level)
{
	return level < BUILD_LEVELS ? level_names[level] : "info";
}

const char *build_log_prefix(const struct build *b, char ret[40])
{
	if (b->finalizing)
		return "[finalize]";
	if (!b->base_done)
		return "[base]";
	(void)snprintf(ret, 40, "[builder %u/%u]", b->step + 1, b->recipe.nsteps);
	return ret;
}

/* The last entries are kept for errors: why a build failed is always in its log. */
static bool build_log_has_room(const struct build *b, enum build_level level, size_t n)
{
	if (level == BUILD_FAULT)
		return b->entries < BUILD_ENTRIES_MAX + 16;
	return b->entries < BUILD_ENTRIES_MAX - 1 && b->log_bytes + n <= BUILD_LOG_BYTES_MAX;
}

/* A log that cannot be written does not fail the build. */
void build_log_text(struct build *b, enum build_level level, const char *text)
{
	char step[STORE_BUILD_STEP_MAX];
	struct store_build_entry row = { .seq = b->entries,
					 .time_ms = core_now_ms(),
					 .level = level,
					 .step = build_step_word(b, step),
					 .message = text };
	struct err e;

	if (!build_log_has_room(b, level, strlen(text))) {
		if (b->log_full)
			return;
		b->log_full = true;
		row.message = "more output follows, which is not kept";
	}
	b->log_bytes += strlen(row.message) + 64;
	if (store_build_log_add(core_store(b->core), b->row.id, &row, &e) < 0)
		log_warn("entry of a build's log could not be written", "build=%s error=%s",
			 b->row.id, e.msg);
	else
		b->entries++;
}

void build_log(struct build *b, enum build_level level, const char *fmt, ...)
{
	char text[BUILD_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	build_log_text(b, level, text);
}

/* ---- what builds leave is removed in pieces: logs of former builds or of tenants with too many,
 * and archives of former templates.
 *
 * The rows of builds go at once, with their template. Their logs may have ten thousand entries
 * each, so those are only noted (store_build_gone), and a job of the node removes them, also after
 * a restart. */

#define ENTRIES_PIECE 64
#define LOGS_AT_ONCE 8 /* that one build pushes out, at its end */

/* Remove one piece of a noted removal, and the note when nothing is left. False: the store refuses.
 */
static bool build_gone_remove_some(struct core *c, const struct store_build_gone *g, bool *ret_more)
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

/* False if the store refuses: the next note or the next start continues. */
static bool on_piece(struct job *j)
{
	struct core *c = j->arg;
	struct store_build_gone g;
	struct err e;
	bool more;

	return store_build_gone_any(core_store(c), &g, &e) == 0 &&
	       build_gone_remove_some(c, &g, &more);
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

/* The rest of the tenant's large logs goes at the end of later builds. */
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

#define WAIT_MS (24ULL * 3600 * 1000)
#define EXPIRE_EVERY_S 300

static const char *const status_names[BUILD_STATUSES] = { "waiting", "building", "ready", "error" };

const char *build_status_name(uint32_t status)
{
	return status < BUILD_STATUSES ? status_names[status] : "error";
}

/* The state of this part of the core. NULL before build_setup(). */
struct builds *builds_of(const struct core *c)
{
	return *session_parts_of_core(c, &build_part);
}

/* ---- builds that run */

static struct build *build_find_running(struct core *c, const char *id)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && strcmp(b->row.id, id) != 0)
		b = b->next;
	return b;
}

/* Cancel everything in progress and free the build. No callback of it comes afterwards. Its row
 * stays as it is. */
static void build_free_build(struct build *b)
{
	struct err e;

	LIST_REMOVE(b);
	image_pull_cancel(&b->pull);
	build_fold_release(b);
	build_cell_release(b);
	loop_timer_cancel(core_loop(b->core), &b->deadline);
	loop_timer_cancel(core_loop(b->core), &b->retry);
	loop_task_cancel(core_loop(b->core), &b->advance);
	if (store_layer_unuse(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id, &e) < 0)
		log_warn("layers of a build could not be released", "build=%s error=%s", b->row.id,
			 e.msg);
	free(b->start_command);
	free(b->ready_command);
	recipe_release(&b->recipe);
	recipe_state_release(&b->state);
	store_build_release(&b->row);
	free(b);
}

/* b is freed. Layers that nothing uses any more are collected last. */
void build_finish(struct build *b, const char *reason)
{
	struct core *c = b->core;
	char tenant[STORE_ID_MAX];
	struct err e;

	b->row.status = reason == NULL ? BUILD_READY : BUILD_ERROR;
	b->row.updated_ms = b->row.finished_ms = core_now_ms();
	b->row.reason = reason == NULL ? "" : reason;
	b->row.log_bytes = b->log_bytes;
	if (reason != NULL) {
		(void)build_step_word(b, b->row.step);
		b->row.version[0] = '\0';
	}
	if (store_build_update(core_store(c), &b->row, &e) < 0)
		log_error("end of a build could not be written", "build=%s error=%s", b->row.id,
			  e.msg);
	if (event_log_append(c, NULL, b->row.tenant, "", "", "build.ended", &e,
			     "build\t%s\ntemplate\t%s\nstatus\t%s\n", b->row.id, b->row.template_id,
			     build_status_name(b->row.status)) < 0)
		log_warn("event of a build could not be written", "error=%s", e.msg);
	memcpy(tenant, b->row.tenant, sizeof(tenant));
	build_free_build(b);
	build_gone_trim(c, tenant);
	templates_collect(c);
}

static void on_deadline(struct loop_timer *t)
{
	struct build *b = t->arg;

	build_fail(b, "the build took longer than %llu s",
		   (unsigned long long)core_config(b->core)->build_timeout_ms / 1000);
}

/* Does b set tags that the build of this row sets, too? Then it ends when that one starts. */
static bool build_is_superseded(const struct build *b, const struct store_build *row)
{
	return strcmp(b->row.template_id, row->template_id) == 0 &&
	       build_shares_tag(b->row.tags, row->tags);
}

/* The tenant's builds that would run beside the row's build. */
static unsigned build_count_running(const struct core *c, const struct tenant *t,
				    const struct store_build *row)
{
	unsigned n = 0;

	for (const struct build *b = builds_of(c)->running; b != NULL; b = b->next)
		n += b->tenant == t && !build_is_superseded(b, row);
	return n;
}

static struct build *build_find_superseded(const struct core *c, const struct store_build *row)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && !build_is_superseded(b, row))
		b = b->next;
	return b;
}

/* The end of a build can end others: after each the search begins again at the head. */
static void build_supersede(struct core *c, const struct store_build *row)
{
	struct build *b;

	while ((b = build_find_superseded(c, row)) != NULL)
		build_finish(b, "the build was superseded by a newer one");
}

/* Take row and recipe over, and put the build into the list. build_run() starts it. */
static struct build *build_make(struct core *c, struct tenant *t, struct store_build *row,
				struct recipe *recipe, const struct store_actor *who)
{
	struct build *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	b->builds = builds_of(c);
	b->core = c;
	b->tenant = t;
	b->row = *row;
	b->actor = *who;
	b->recipe = *recipe;
	*recipe = (struct recipe){ 0 };
	b->began_ms = core_now_ms();
	b->fresh = b->recipe.force;
	b->archive = b->exec.log = b->start.log = -1;
	recipe_state_init(&b->state);
	b->deadline = (struct loop_timer){ .on_expire = on_deadline, .arg = b };
	LIST_PUSH(&b->builds->running, b);
	loop_timer_set(core_loop(c), &b->deadline,
		       clock_now_ns() + core_config(c)->build_timeout_ms * CLOCK_MS);
	return b;
}

/* End other builds only when nothing can refuse this one any more. */
static int build_admit(struct core *c, struct tenant *t, struct store_build *row, struct err *e)
{
	unsigned running = build_count_running(c, t, row);

	if (core_check_ready(c, e) < 0)
		return -1;
	if (row->status != BUILD_WAITING)
		return err_set(e, ERR_INVALID, "build is not in waiting state");
	if (running >= core_config(c)->build_max)
		return err_set_reason(e, REASON_QUOTA_BUILDS,
				      "%u builds of this tenant run, the most there can be "
				      "(build_max)",
				      running);
	row->status = BUILD_BUILDING;
	row->log_bytes = BUILD_LOG_BYTES_MAX; /* until its end */
	row->updated_ms = core_now_ms();
	if (store_build_update(core_store(c), row, e) < 0)
		return -1;
	build_supersede(c, row);
	return 0;
}

/* list: words separated by commas. word has n bytes. */
static bool word_is_in(const char *word, size_t n, const char *list)
{
	for (const char *at = list; *at != '\0';) {
		size_t len = strcspn(at, ",");

		if (len == n && memcmp(at, word, n) == 0)
			return true;
		at += len + (at[len] == ',');
	}
	return false;
}

/* May a build have this network? The operator lists the presets. */
static int build_check_network(const struct core *c, const char *network, struct err *e)
{
	const struct config *g = core_config(c);

	for (const char *at = network; at != NULL && *at != '\0';) {
		size_t n = strcspn(at, ",");

		if (!word_is_in(at, n, g->build_networks) && !word_is_in(at, n, g->build_network)) {
			(void)err_set(e, ERR_DENIED,
				      "network: '%.*s' is not among the presets that builds may "
				      "have (build_networks: %s)",
				      (int)n, at,
				      g->build_networks[0] == '\0' ? "none" : g->build_networks);
			err_sanitize(e);
			return -1;
		}
		at += n + (at[n] == ',');
	}
	return 0;
}

/* The network is checked before the row, so a refused recipe leaves the build waiting. */
int build_start(struct core *c, struct tenant *t, const char *template_id, const char *id,
		struct recipe *recipe, const struct store_actor *who, struct err *e)
{
	struct store_build row;

	if (build_check_network(c, recipe->network, e) < 0 ||
	    build_get(c, t, template_id, id, &row, e) < 0) {
		recipe_release(recipe);
		return -1;
	}
	if (build_admit(c, t, &row, e) < 0) {
		store_build_release(&row);
		recipe_release(recipe);
		return -1;
	}
	build_run(build_make(c, t, &row, recipe, who));
	return 0;
}

static struct build *build_find_of_template(const struct core *c, const char *template_id)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && strcmp(b->row.template_id, template_id) != 0)
		b = b->next;
	return b;
}

/* The end of a build can end others, so each search begins at the head. */
void build_cancel_all(struct core *c, const char *template_id, const char *reason)
{
	struct build *b;

	while ((b = build_find_of_template(c, template_id)) != NULL)
		build_finish(b, reason);
	build_end_waiting(c, template_id, NULL, "", reason);
}

/* The check comes first: a refused removal must not end builds. */
int build_remove_template(struct core *c, const char *template_id, struct template_version *v,
			  const struct store_actor *who, struct err *e)
{
	char id[STORE_ID_MAX];

	/* It may be a text of the version, which is freed. */
	(void)snprintf(id, sizeof(id), "%s", template_id);
	if (v != NULL && templates_check_removal(c, v, e) < 0)
		return -1;
	/* The end of a build frees versions that nothing uses. */
	if (v != NULL)
		(void)template_use(v);
	build_cancel_all(c, id, "its template is deleted");
	if (v == NULL)
		return build_delete_template(c, id, e);
	template_unuse(v);
	if (templates_remove(c, v, who, e) < 0)
		return -1;
	build_gone_start(c);
	return 0;
}

int build_cancel(struct core *c, const struct tenant *t, const char *template_id, const char *id,
		 struct err *e)
{
	struct store_build row;
	struct build *b;

	if (build_get(c, t, template_id, id, &row, e) < 0)
		return -1;
	b = build_find_running(c, id);
	if (b != NULL) {
		store_build_release(&row);
		build_fail(b, "the build was cancelled");
		return 0;
	}
	if (row.status == BUILD_WAITING) {
		row.status = BUILD_ERROR;
		row.reason = "the build was cancelled";
		row.updated_ms = row.finished_ms = core_now_ms();
		if (store_build_update(core_store(c), &row, e) < 0) {
			store_build_release(&row);
			return -1;
		}
		store_build_release(&row);
		return 0;
	}
	store_build_release(&row);
	return err_set(e, ERR_CONFLICT, "the build has ended");
}

/* ---- the part of the core */

/* layers.h calls this for a tenant that needs room for layers. */
static uint64_t build_give_up(void *arg, const char *tenant, uint64_t bytes)
{
	return build_cache_give_up(arg, tenant, bytes);
}

/* Builds of a dead daemon end here: one with its version in the templates was ready, all others
 * have failed. */
static int build_setup(struct core *c, struct err *e)
{
	struct builds *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	b->core = c;
	b->uploads = -1;
	*session_parts_of_core(c, &build_part) = b;
	core_layers(c)->give_up = build_give_up;
	core_layers(c)->give_up_arg = c;
	if (store_build_settle(core_store(c), BUILD_BUILDING, BUILD_READY, core_now_ms(), e) < 0 ||
	    store_build_give_up(core_store(c), BUILD_BUILDING, BUILD_ERROR,
				"the server ended while the build ran", core_now_ms(), e) < 0)
		return err_wrap(e, "builds");
	return build_upload_setup(c, e);
}

/* The daemon ends. Rows of running builds still say so, and the next start ends them. */
static void build_release(struct core *c)
{
	struct builds *b = builds_of(c);

	if (b == NULL)
		return;
	while (b->running != NULL)
		build_free_build(b->running);
	build_gone_release(c);
	build_upload_release(c);
	fd_close(b->uploads);
	free(b);
	*session_parts_of_core(c, &build_part) = NULL;
}

/* A session of a build that died with an earlier daemon has no use. */
static void on_adopted(struct session *s)
{
	struct err e;

	if (build_has_session(session_row(s)))
		IGNORED(session_delete(session_core(s), session_tenant(s), session_row(s)->id, NULL,
				       &e),
			"it ends by its timeout");
}

/* A client that asked and never starts its build would count against its tenant forever. */
static void build_expire(struct core *c)
{
	uint64_t now = core_now_ms();
	struct err e;

	if (store_build_expire(core_store(c), BUILD_WAITING, BUILD_ERROR,
			       "the build was not started within a day", now - WAIT_MS, now,
			       &e) < 0)
		log_warn("builds that wait could not be ended", "error=%s", e.msg);
}

static void on_second(struct core *c)
{
	struct builds *b = builds_of(c);

	if (b->seconds++ % EXPIRE_EVERY_S == 0)
		build_expire(c);
	if (b->swept || !core_recovered(c))
		return;
	b->swept = true;
	build_fold_sweep(c);
	build_gone_start(c);
}

/* Remove one thing of a tenant being deleted. False: nothing is left. The part of the core calls it
 * again until then. */
static bool build_delete_one(struct core *c, struct tenant *t)
{
	struct store_build row;
	struct err e;
	bool any = false;

	for (struct build *b = builds_of(c)->running; b != NULL && !any; b = b->next)
		if (b->tenant == t) {
			build_fail(b, "the tenant was removed");
			return true;
		}
	if (store_build_any(core_store(c), tenant_row(t)->id, &row, &e) == 0) {
		any = build_delete_template(c, row.template_id, &e) == 0;
		store_build_release(&row);
	}
	return any || build_upload_delete_one(c, tenant_row(t)->id) ||
	       build_cache_delete_one(c, tenant_row(t)->id);
}

const struct session_part build_part = { .name = "builds",
					 .setup = build_setup,
					 .release = build_release,
					 .on_second = on_second,
					 .on_adopted = on_adopted,
					 .delete_one = build_delete_one };
