#include "supervisor_notify.h"

#include "clock.h"
#include "core_run.h"
#include "io.h"
#include "supervisor_msg.h"

#define LOOK_MS 10
#define WAIT_MS 5000

bool supervisor_notify(char word, unsigned slot)
{
	const char message[SERVE_MESSAGE] = { word, (char)slot };
	struct err e;

	return io_send(SERVE_FD_CONTROL, message, sizeof(message), NULL, 0, &e) == 0;
}

static void on_look(struct loop_timer *t)
{
	struct supervisor_ready *r = t->arg;
	const char *why;

	if (!core_fit(r->core, &why) && clock_now_ns() < r->until_ns) {
		loop_timer_set(core_loop(r->core), t, clock_now_ns() + LOOK_MS * CLOCK_MS);
		return;
	}
	IGNORED(supervisor_notify(SERVE_READY, 0) ? 0 : -1,
		"systemd ends the server after its timeout");
}

void supervisor_notify_ready(struct supervisor_ready *r, struct core *c)
{
	r->core = c;
	r->until_ns = clock_now_ns() + WAIT_MS * CLOCK_MS;
	r->look = (struct loop_timer){ .on_expire = on_look, .arg = r };
	on_look(&r->look);
}

bool supervisor_replace_keeper(void *arg, unsigned slot)
{
	(void)arg;
	return supervisor_notify(SERVE_KEEPER_HUNG, slot);
}

void supervisor_replace_egress(void *arg, unsigned slot)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_EGRESS_HUNG, slot) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_pull(void *arg)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_PULL_HUNG, 0) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_cache(void *arg)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_CACHE_HUNG, 0) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_storage(void *arg)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_STORAGE_HUNG, 0) ? 0 : -1, "it is asked for again");
}
