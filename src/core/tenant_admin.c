/* tenant_admin.c - makes and changes tenants (tenant.h), and makes the first one with its key. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_events.h"
#include "core_private.h"
#include "io.h"
#include "log.h"
#include "rand.h"
#include "session.h"
#include "session_parts.h"
#include "session_queue.h"
#include "tenant.h"

static void on_policy_changed(struct session *s, void *arg)
{
	(void)arg;
	if (s->row.state < SESSION_STOPPING)
		session_parts_changed(s);
}

int tenant_set_policy(struct core *c, struct tenant *t, const char *document,
		      const struct store_actor *who, struct err *e)
{
	char *copy = strdup(document);

	if (copy == NULL)
		return err_sys(e, "allocate");
	if (store_begin(c->store, e) < 0 ||
	    store_tenant_set_policy(c->store, t->row.id, document, e) < 0 ||
	    access_events_tenant(c, who, "tenant.network", &t->row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		free(copy);
		return -1;
	}
	free(t->policy);
	t->policy = copy;
	t->policy_changes++;
	session_each(c, t, on_policy_changed, NULL);
	return 0;
}

int tenant_create(struct core *c, struct store_tenant *row, const struct store_actor *who,
		  struct err *e)
{
	rand_id("ten_", row->id, sizeof(row->id));
	row->created_ms = core_now_ms();
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_insert(c->store, row, e) < 0 ||
	    access_events_tenant(c, who, "tenant.created", row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	tenant_add(c, row);
	return 0;
}

int tenant_update(struct core *c, struct tenant *t, const struct store_tenant *row,
		  const struct store_actor *who, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_update(c->store, row, e) < 0 ||
	    access_events_changed(c, who, &t->row, row, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	t->row = *row;
	tenant_forget_keys();
	session_queue_serve(c);
	return 0;
}

/* Writes the file whole or not at all: a key of which only half is in it would be lost. */
static int write_first_key(struct core *c, const char *key, struct err *e)
{
	OWN_FD fd = openat(c->o.state_fd, "first.key.new",
			   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "make first.key");
	if (io_write_all(fd, key, TENANT_KEY_LEN, e) < 0 || io_write_all(fd, "\n", 1, e) < 0)
		return -1;
	if (fsync(fd) < 0 ||
	    renameat(c->o.state_fd, "first.key.new", c->o.state_fd, "first.key") < 0)
		return err_sys(e, "write first.key");
	return 0;
}

int tenant_first(struct core *c, struct err *e)
{
	const struct tenant_key_spec spec = { .name = "first", .scopes = TENANT_SCOPES };
	struct store_tenant row = { .name = "default", .is_operator = true };
	struct tenant *t = c->tenants;
	char key[TENANT_KEY_LEN + 1], done[8];
	struct store_key k;

	while (t != NULL && !t->row.is_operator)
		t = t->next;
	if (t == NULL) {
		if (tenant_create(c, &row, NULL, e) < 0)
			return -1;
		t = tenant_find(c, row.id);
		assert(t != NULL);
	}
	if (store_meta_get(c->store, "first_key", done, sizeof(done), e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	*e = (struct err){ 0 };
	/* If the daemon is killed in between, the next start makes another key: the file has the
	 * last one. */
	if (tenant_key_create(c, t, &spec, NULL, &k, key, e) < 0 ||
	    write_first_key(c, key, e) < 0 || store_meta_set(c->store, "first_key", "yes", e) < 0)
		return -1;
	explicit_bzero(key, sizeof(key));
	log_info("first key written", "file=%s", "first.key");
	return 0;
}
