#include "egress_links.h"

#include "core.h"
#include "net_state.h"
#include "session.h"
#include "session_egress.h"

static void on_sync(struct loop_task *t)
{
	egress_links_sync(t->arg);
}

void egress_links_init(struct egress_links *all, struct core *c, unsigned n)
{
	*all = (struct egress_links){ .core = c, .n = n };
	all->sync = (struct loop_task){ .on_run = on_sync, .arg = all };
	for (unsigned i = 0; i < n; i++)
		egress_link_init(&all->links[i], all, i);
}

void egress_links_release(struct egress_links *all)
{
	loop_task_cancel(core_loop(all->core), &all->sync);
	for (unsigned i = 0; i < all->n; i++)
		egress_link_release(&all->links[i]);
}

/* FNV-1a. Ids are random, but not all of their characters are; a client cannot choose one. */
unsigned egress_links_slot(const char *session_id, unsigned n)
{
	uint32_t h = 2166136261U;

	for (; *session_id != '\0'; session_id++)
		h = (h ^ (uint8_t)*session_id) * 16777619U;
	return (h ^ h >> 16) % n;
}

int egress_links_attach(struct egress_links *all, unsigned slot, int sock, struct err *e)
{
	if (slot < all->n)
		return egress_link_attach(&all->links[slot], sock, e);
	fd_close(sock);
	return err_set(e, ERR_INVALID, "there is no process %u of cordon-egress", slot);
}

struct look {
	bool missing[SERVE_EGRESS_MAX];
};

static void look_one(struct session *s, void *arg)
{
	struct look *l = arg;

	/* Also when its process is synced: it had to wait because many others were asked. */
	session_egress_try(s);
	if (session_egress_is_missing(s))
		l->missing[session_egress_link(s)->slot] = true;
}

void egress_links_sync(struct egress_links *all)
{
	struct look l = { 0 };

	if (egress_links_up(all) == 0 || !core_recovered(all->core))
		return;
	for (unsigned i = 0; i < all->n; i++)
		all->links[i].waiting = false;
	session_each(all->core, NULL, look_one, &l);
	for (unsigned i = 0; i < all->n; i++)
		egress_link_synced(&all->links[i], l.missing[i]);
}

void egress_links_sync_later(struct egress_links *all)
{
	loop_defer(core_loop(all->core), &all->sync);
}

unsigned egress_links_up(const struct egress_links *all)
{
	unsigned up = 0;

	for (unsigned i = 0; i < all->n; i++)
		up += egress_link_up(&all->links[i]) ? 1 : 0;
	return up;
}

bool egress_links_any_hung(const struct egress_links *all)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->links[i].hung)
			return true;
	return false;
}

void egress_links_write_turns(const struct egress_links *all, struct buf *to)
{
	struct egress_turns sum = { 0 };

	for (unsigned i = 0; i < all->n; i++)
		egress_turns_add(&sum, &all->links[i].turns);
	egress_turns_write(&sum, to);
}
