/* build.c - see build.h: builds are started, cancelled, ended; and the part of the core that keeps
 * them. */
#include "build.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_cell.h"
#include "build_private.h"
#include "build_upload.h"
#include "clock.h"
#include "event_log.h"
#include "list.h"
#include "log.h"
#include "session_parts.h"
#include "templates.h"
#include "tenant.h"

#define WAIT_MS (24ULL * 3600 * 1000)
#define EXPIRE_EVERY_S 300

static const char *const status_names[BUILD_STATUSES] = { "waiting", "building", "ready", "error" };

const char *build_status_name(uint32_t status)
{
	return status < BUILD_STATUSES ? status_names[status] : "error";
}

struct builds *builds_of(const struct core *c)
{
	return *session_parts_of_core(c, &build_part);
}

/* ---- builds that run */

static struct build *find_running(struct core *c, const char *id)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && strcmp(b->row.id, id) != 0)
		b = b->next;
	return b;
}

static void free_build(struct build *b)
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
	free_build(b);
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
static bool is_superseded(const struct build *b, const struct store_build *row)
{
	return strcmp(b->row.template_id, row->template_id) == 0 &&
	       build_shares_tag(b->row.tags, row->tags);
}

/* Builds of the tenant that would run beside that of the row. */
static unsigned count_running(const struct core *c, const struct tenant *t,
			      const struct store_build *row)
{
	unsigned n = 0;

	for (const struct build *b = builds_of(c)->running; b != NULL; b = b->next)
		n += b->tenant == t && !is_superseded(b, row);
	return n;
}

static struct build *find_superseded(const struct core *c, const struct store_build *row)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && !is_superseded(b, row))
		b = b->next;
	return b;
}

/* The end of a build can end others: after each the search begins again at the head. */
static void supersede(struct core *c, const struct store_build *row)
{
	struct build *b;

	while ((b = find_superseded(c, row)) != NULL)
		build_finish(b, "the build was superseded by a newer one");
}

static struct build *make(struct core *c, struct tenant *t, struct store_build *row,
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

/* Ends other builds only when nothing can refuse this one any more. */
static int admit(struct core *c, struct tenant *t, struct store_build *row, struct err *e)
{
	unsigned running = count_running(c, t, row);
	const char *why;

	if (!core_ready(c, &why))
		return err_set_reason(e, REASON_UNAVAILABLE, "not ready: %s", why);
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
	supersede(c, row);
	return 0;
}

int build_start(struct core *c, struct tenant *t, const char *template_id, const char *id,
		struct recipe *recipe, const struct store_actor *who, struct err *e)
{
	struct store_build row;

	if (build_get(c, t, template_id, id, &row, e) < 0) {
		recipe_release(recipe);
		return -1;
	}
	if (admit(c, t, &row, e) < 0) {
		store_build_release(&row);
		recipe_release(recipe);
		return -1;
	}
	build_run(make(c, t, &row, recipe, who));
	return 0;
}

static struct build *find_of_template(const struct core *c, const char *template_id)
{
	struct build *b = builds_of(c)->running;

	while (b != NULL && strcmp(b->row.template_id, template_id) != 0)
		b = b->next;
	return b;
}

void build_cancel_all(struct core *c, const char *template_id, const char *reason)
{
	struct build *b;

	while ((b = find_of_template(c, template_id)) != NULL)
		build_finish(b, reason);
	build_end_waiting(c, template_id, NULL, "", reason);
}

int build_cancel(struct core *c, const struct tenant *t, const char *template_id, const char *id,
		 struct err *e)
{
	struct store_build row;
	struct build *b;

	if (build_get(c, t, template_id, id, &row, e) < 0)
		return -1;
	b = find_running(c, id);
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

static uint64_t give_up(void *arg, const char *tenant, uint64_t bytes)
{
	return build_cache_give_up(arg, tenant, bytes);
}

static int setup(struct core *c, struct err *e)
{
	struct builds *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	b->core = c;
	b->uploads = -1;
	*session_parts_of_core(c, &build_part) = b;
	core_layers(c)->give_up = give_up;
	core_layers(c)->give_up_arg = c;
	if (store_build_settle(core_store(c), BUILD_BUILDING, BUILD_READY, core_now_ms(), e) < 0 ||
	    store_build_give_up(core_store(c), BUILD_BUILDING, BUILD_ERROR,
				"the server ended while the build ran", core_now_ms(), e) < 0)
		return err_wrap(e, "builds");
	return build_upload_setup(c, e);
}

static void release(struct core *c)
{
	struct builds *b = builds_of(c);

	if (b == NULL)
		return;
	while (b->running != NULL)
		free_build(b->running);
	build_gone_release(c);
	loop_task_cancel(core_loop(c), &b->admit);
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

/* A client that has asked and never starts its build would count against its tenant for ever. */
static void expire(struct core *c)
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
		expire(c);
	if (b->swept || !core_recovered(c))
		return;
	b->swept = true;
	build_fold_sweep(c);
	build_gone_start(c);
}

static bool delete_one(struct core *c, struct tenant *t)
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
					 .setup = setup,
					 .release = release,
					 .on_second = on_second,
					 .on_adopted = on_adopted,
					 .delete_one = delete_one };
