#include "build_cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "policy_select.h"
#include "tenant.h"
#include "templates.h"

#define CLIENT "build "

bool build_has_session(const struct store_session *row)
{
	return row->client != NULL && strncmp(row->client, CLIENT, strlen(CLIENT)) == 0;
}

struct session *build_cell_session(struct build *b)
{
	struct err e;

	return b->session_id[0] == '\0' ? NULL
					: session_live(b->core, b->tenant, b->session_id, &e);
}

static void on_session(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct session *s = b->making;

	b->making = NULL;
	if (e != NULL) {
		build_fail(b, "no session can be made for the step: %s", e->msg);
		return;
	}
	(void)snprintf(b->session_id, sizeof(b->session_id), "%s", session_row(s)->id);
	b->then(b);
}

/* Limits, time and network of the session. The caller frees *ret_policy. */
static int fill(struct build *b, struct session_spec *spec, char **ret_policy, struct err *e)
{
	const struct config *g = core_config(b->core);

	spec->version = template_row(b->base)->id;
	spec->layers = (const char(*)[STORE_ID_MAX])b->stack.layers;
	spec->nlayers = b->stack.nlayers;
	spec->profile = -1;
	spec->limits.cpu_millis = b->row.cpu_millis;
	spec->limits.memory_bytes = b->row.memory_bytes;
	spec->timeout_ms =
		g->session_timeout_max_ms > 0 && g->session_timeout_max_ms < g->build_timeout_ms
			? g->session_timeout_max_ms
			: g->build_timeout_ms;
	spec->timeout_given = true;
	spec->idle_given = true;
	spec->of_build = true;
	spec->actor = &b->actor;
	if (g->build_disk > 0 && !b->no_disk) {
		spec->storage = SESSION_DISK;
		spec->storage_given = true;
		spec->limits.disk_bytes = g->build_disk;
	}
	if (g->build_network[0] == '\0')
		return 0;
	if (policy_select_presets(g->build_network, ret_policy, e) < 0)
		return err_wrap(e, "build_network");
	spec->policy = *ret_policy;
	return 0;
}

void build_cell_open(struct build *b, void (*then)(struct build *b))
{
	char client[64], metadata[160];
	struct session_spec spec = { .client = client, .metadata = metadata };
	struct session *s = NULL;
	char *policy = NULL;
	unsigned retry_s;
	struct err e = { 0 };
	int rc;

	build_cell_close(b);
	(void)snprintf(client, sizeof(client), CLIENT "%s", b->row.id);
	(void)snprintf(metadata, sizeof(metadata),
		       "{\"label\":\"build\",\"cordon.build\":\"%s\",\"cordon.template\":\"%s\"}",
		       b->row.id, b->row.template_id);
	b->then = then;
	b->cell_wait.on_done = on_session;
	b->cell_wait.arg = b;
	rc = fill(b, &spec, &policy, &e);
	if (rc == 0)
		rc = session_create(b->core, b->tenant, &spec, &b->cell_wait, &s, &retry_s, &e);
	free(policy);
	if (rc < 0 && e.code == ERR_UNSUPPORTED && spec.storage == SESSION_DISK) {
		b->no_disk = true; /* this machine has none */
		build_cell_open(b, then);
	} else if (rc < 0) {
		build_fail(b, "no session can be made for the step: %s", e.msg);
	}
	if (rc == 0 && completion_is_waiting(&b->cell_wait))
		b->making = s;
}

void build_cell_close(struct build *b)
{
	struct err e;

	/* A session that is queued has no id yet; it goes with its waiter. */
	if (b->making != NULL && completion_is_waiting(&b->cell_wait))
		(void)snprintf(b->session_id, sizeof(b->session_id), "%s",
			       session_row(b->making)->id);
	b->making = NULL;
	completion_cancel(&b->cell_wait);
	session_capture_cancel(&b->capture);
	build_exec_release(b, &b->exec);
	build_exec_release(b, &b->start);
	build_copy_release(b);
	if (b->session_id[0] == '\0')
		return;
	if (session_delete(b->core, b->tenant, b->session_id, &b->actor, &e) < 0 &&
	    e.code != ERR_NOT_FOUND)
		log_warn("session of a build could not be ended", "session=%s error=%s",
			 b->session_id, e.msg);
	b->session_id[0] = '\0';
}

void build_cell_release(struct build *b)
{
	build_cell_close(b);
}

/* ---- capture */

/* The layer belongs to the build before the capture lets go of it. A step that changed nothing
 * leaves no layer. */
static int take_layer(struct build *b, struct err *e)
{
	struct session_capture *k = &b->capture;
	char one[1][STORE_ID_MAX];

	memcpy(one[0], k->layer, sizeof(one[0]));
	if (template_stack_push(&b->stack, (const char(*)[STORE_ID_MAX])one, 1, e) < 0)
		return -1;
	if (store_layer_use(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id,
			    (const char(*)[STORE_ID_MAX])b->stack.layers, b->stack.nlayers,
			    e) < 0) {
		b->stack.nlayers--;
		return -1;
	}
	return store_layer_get(core_store(b->core), k->layer, &b->captured, e);
}

static void on_captured(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct err why = { 0 };
	int rc = 0;

	if (e != NULL) {
		build_fail(b, "the changes of the step cannot be kept: %s", e->msg);
		return;
	}
	if (b->capture.entries > 0)
		rc = take_layer(b, &why);
	session_capture_release(b->core, &b->capture);
	if (rc < 0)
		build_fail(b, "the changes of the step cannot be kept: %s", why.msg);
	else
		b->then(b);
}

void build_cell_capture(struct build *b, void (*then)(struct build *b))
{
	struct session *s = build_cell_session(b);

	if (s == NULL) {
		build_fail(b, "the session of the build ended");
		return;
	}
	b->then = then;
	b->capture.done.on_done = on_captured;
	b->capture.done.arg = b;
	session_capture(s, "build", false, &b->capture);
}
