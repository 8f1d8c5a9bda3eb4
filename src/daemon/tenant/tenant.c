/* tenant.c - the table of tenants, and the counts for each. It depends on no other file about
 * tenants. */
#include "daemon/tenant/tenant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core_private.h"

#define ORDERS_MAX ((size_t)32 << 20) /* bytes that wait for the PID 1s of a tenant's sessions */

const struct store_tenant *tenant_row(const struct tenant *t)
{
	return &t->row;
}

struct byte_account *tenant_account(struct tenant *t)
{
	return &t->account;
}

bool tenant_hold(struct core *c, struct tenant *t, size_t n)
{
	const size_t max = c->o.config->tenant_bodies_max;

	return c->o.held == NULL || byte_account_add(&t->account, c->o.held,
						     (struct byte_account_bounds){ max, 4 * max },
						     n) == BYTE_ACCOUNT_ROOM;
}

void tenant_let_go(struct core *c, struct tenant *t, size_t n)
{
	if (c->o.held != NULL)
		byte_account_take(&t->account, c->o.held, n);
}

struct tenant *tenant_find(struct core *c, const char *id)
{
	struct tenant *t = c->tenants;

	while (t != NULL && strcmp(t->row.id, id) != 0)
		t = t->next;
	return t;
}

/* At the start for each row, and for a new tenant. Tenants are never freed while the daemon runs.
 */
void tenant_add(struct core *c, const struct store_tenant *row)
{
	struct tenant *t = calloc(1, sizeof(*t));

	assert(t != NULL);
	t->row = *row;
	t->queue_end = &t->queue;
	t->account.work = &t->work;
	t->orders.max = ORDERS_MAX;
	t->next = c->tenants;
	c->tenants = t;
}

static int tenant_load(const struct store_tenant *row, void *cookie)
{
	tenant_add(cookie, row);
	return 0;
}

static void add_kept(const char *tenant, uint64_t bytes, void *cookie)
{
	struct tenant *t = tenant_find(cookie, tenant);

	if (t != NULL)
		t->kept_bytes += bytes;
}

int tenant_load_all(struct core *c, struct err *e)
{
	if (store_tenant_each(c->store, tenant_load, c, e) < 0)
		return -1;
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		if (store_tenant_get_policy(c->store, t->row.id, &t->policy, e) < 0)
			return -1;
	if (store_execution_logs_by_tenant(c->store, add_kept, c, e) < 0)
		return -1;
	return store_session_diffs_by_tenant(c->store, add_kept, c, e);
}

uint64_t tenant_policy_changes(const struct tenant *t)
{
	return t->policy_changes;
}

const char *tenant_policy(const struct tenant *t)
{
	return t->policy == NULL ? "" : t->policy;
}

int tenant_check(const struct tenant *t, struct err *e)
{
	return t->row.disabled ? err_set(e, ERR_DENIED, "the tenant was removed") : 0;
}

/* Open requests (streams, silent servers in cells) hold connections. The last quarter of the
 * connections is for tenants with few of them open. */
int tenant_enter(struct core *c, struct tenant *t, struct err *e)
{
	uint64_t max = core_config(c)->connections_max;

	if (tenant_check(t, e) < 0)
		return -1;
	if (c->requests >= max - max / 4 && t->requests > max / 8)
		return err_set_reason(e, REASON_QUOTA_CONNECTIONS,
				      "%u requests are under way already", t->requests);
	c->requests++;
	t->requests++;
	return 0;
}

void tenant_leave(struct core *c, struct tenant *t)
{
	c->requests--;
	t->requests--;
}

int tenant_stream_open(struct core *c, struct tenant *t, struct err *e)
{
	uint64_t max = core_config(c)->tenant_max_streams;

	if (max > 0 && t->streams >= max)
		return err_set_reason(e, REASON_QUOTA_STREAMS,
				      "the tenant's open streams are %llu already; close some",
				      (unsigned long long)max);
	t->streams++;
	return 0;
}

void tenant_stream_close(struct tenant *t)
{
	t->streams--;
}

const struct tenant *tenant_operator(const struct core *c)
{
	const struct tenant *t = c->tenants;

	while (t != NULL && !t->row.is_operator)
		t = t->next;
	assert(t != NULL);
	return t;
}
