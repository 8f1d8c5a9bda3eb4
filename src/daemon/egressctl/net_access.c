/* net_access.c - network access as a table of functions for the core (session_hooks.h), and the
 * node's part. */
#include "daemon/egressctl/net_access.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/net_batch.h"
#include "daemon/egressctl/net_log.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/net_usage.h"
#include "daemon/egressctl/package_cache.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/egressctl/session_policy.h"
#include "daemon/execution/execution.h"
#include "daemon/node/core_metrics.h"
#include "daemon/secrets/secret_execution.h"
#include "daemon/tenant/allow.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/packages/advisories.h"
#include "lib/policy/policy_memo.h"
#include "lib/policy/policy_select.h"

/* ---- see net_access.h. Reads the first line of the file. Called for each
 * request of metrics. */

/* Both 0: there is no list. */
static void net_access_advisories_info(const char *state_dir, uint64_t *ret_lines,
				       uint64_t *ret_age_s)
{
	char path[256], head[128];
	uint64_t now = clock_wall_ms() / 1000;
	struct advisories list;
	const char *end;
	ssize_t n;

	*ret_lines = *ret_age_s = 0;
	(void)snprintf(path, sizeof(path), "%.200s/advisories", state_dir);
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, head, sizeof(head));
	end = n <= 0 ? NULL : memchr(head, '\n', (size_t)n);
	if (end == NULL || !advisories_open(head, (size_t)(end - head) + 1, &list))
		return;
	*ret_lines = list.lines;
	*ret_age_s = now > list.time_s ? now - list.time_s : 0;
}

static int net_access_setup(struct core *c, struct err *e)
{
	struct net_access *n = calloc(1, sizeof(*n));

	assert(n != NULL);
	n->core = c;
	*session_parts_of_core(c, &net_access_part) = n;
	egress_links_init(&n->egress, c,
			  core_options(c)->negress == 0 ? 1 : core_options(c)->negress);
	package_cache_init(&n->cache, c, &n->egress);
	net_usage_init(&n->used, c);
	net_batch_init(&n->batches, c);
	n->notify = (struct loop_task){ .on_run = net_log_on_notify, .arg = n };
	return session_policy_setup(n, e);
}

static void net_access_release(struct core *c)
{
	struct net_access *n = net_access_of(c);

	if (n == NULL)
		return;
	package_cache_release(&n->cache);
	egress_links_release(&n->egress);
	net_usage_release(&n->used);
	net_batch_release(&n->batches);
	loop_task_cancel(core_loop(c), &n->notify);
	free(n->default_policy);
	policy_memo_free(n->merged);
	free(n);
	*session_parts_of_core(c, &net_access_part) = NULL;
}

int net_access_set_egress(struct core *c, unsigned slot, int channel_fd, struct err *e)
{
	struct net_access *n = net_access_of(c);

	if (egress_links_attach(&n->egress, slot, channel_fd, e) < 0)
		return -1;
	package_cache_join(&n->cache, slot);
	return 0;
}

int net_access_set_cache(struct core *c, int channel_fd, struct err *e)
{
	return package_cache_attach(&net_access_of(c)->cache, channel_fd, e);
}

static void on_second(struct core *c)
{
	egress_links_sync(&net_access_of(c)->egress);
}

static bool net_access_is_fit(const struct core *c, const char **ret_why)
{
	const struct egress_links *l = &net_access_of(c)->egress;

	*ret_why = egress_links_any_hung(l)		 ? "cordon-egress does not answer"
		   : l->n > 0 && egress_links_up(l) == 0 ? "cordon-egress is not running"
							 : NULL;
	return *ret_why == NULL;
}

static void net_access_count_open(struct session *s, void *arg)
{
	unsigned *n = arg;

	*n += net_session_of(s)->egress.state == SESSION_EGRESS_OPEN ? 1 : 0;
}

static void on_metrics(struct core *c, struct buf *b)
{
	const struct egress_links *l = &net_access_of(c)->egress;
	const struct cache_stats *cache = &net_access_of(c)->cache.last;
	struct core_metrics_network now = { .processes = l->n,
					    .up = egress_links_up(l),
					    .broken = l->numbers.broken,
					    .invalid = l->numbers.invalid,
					    .records = l->numbers.records,
					    .refused = l->numbers.refused,
					    .bytes_in = l->numbers.bytes_in,
					    .bytes_out = l->numbers.bytes_out,
					    .requests = l->numbers.requests };

	session_each(c, NULL, net_access_count_open, &now.sessions);
	now.cache_up = package_cache_is_up(c);
	now.cache_bytes = cache->bytes;
	now.cache_objects = cache->objects;
	now.cache_evicted = cache->evicted;
	now.cache_refused = cache->refused;
	now.cache_bad = cache->bad;
	net_access_advisories_info(core_config(c)->state_dir, &now.advisories,
				   &now.advisories_age_s);
	core_metrics_network(&now);
	egress_links_write_turns(l, b);
}

static int net_access_check(struct session *s, struct err *e)
{
	char name[POLICY_SELECT_NAME_MAX];

	policy_select_name(session_policy_own(s), name);
	if (allow_network(session_core(s), session_tenant(s), session_actor(s), name, e) < 0)
		return -1;
	return session_policy_check(session_core(s), session_tenant(s), session_row(s)->policy, e);
}

static bool net_access_is_ready(const struct session *s)
{
	return !net_session_of(s)->egress.creating;
}

static void on_changed(struct session *s)
{
	session_egress_look_again(s);
}

/* A placeholder of the execution is not replaced until cordon-egress knows it, and a value that the
 * execution has in another way is not covered in records. */
static bool net_access_prepare(struct session *s, struct execution *x, struct completion *w)
{
	if (!secret_has_way(execution_row(x)->secrets, SECRET_WAYS))
		return false;
	session_egress_changed(s, SESSION_EGRESS_SECRETS, w);
	return true;
}

static void on_free(struct session *s, const struct err *why)
{
	void **at = session_parts_of(s, &net_access_part);

	if (*at == NULL)
		return;
	session_egress_free(s, why);
	net_usage_forget(s);
	net_batch_forget(s);
	net_refusals_release(&net_session_of(s)->refused);
	free(*at);
	*at = NULL;
}

const struct session_part net_access_part = {
	.name = "network access",
	.setup = net_access_setup,
	.release = net_access_release,
	.on_second = on_second,
	.is_fit = net_access_is_fit,
	.on_metrics = on_metrics,
	.check = net_access_check,
	.on_started = session_egress_on_started,
	.is_ready = net_access_is_ready,
	.on_restored = net_batch_look,
	.on_adopted = session_egress_on_adopted,
	.on_resumed = session_egress_on_resumed,
	.on_changed = on_changed,
	.prepare = net_access_prepare,
	.on_egress_listens = session_egress_on_listens,
	.on_cell_gone = session_egress_on_cell_gone,
	.on_ending = session_egress_on_ending,
	.finish = net_batch_finish,
	.on_free = on_free,
};
