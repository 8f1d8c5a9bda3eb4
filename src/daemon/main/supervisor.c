#include "daemon/main/supervisor.h"

#include <string.h>

#include "daemon/node/core_run.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/wire/supervisor_msg.h"

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

static bool supervisor_replace_keeper(void *arg, unsigned slot)
{
	return supervisor_notify(SERVE_KEEPER_HUNG, slot);
}

static void supervisor_replace_egress(void *arg, unsigned slot)
{
	IGNORED(supervisor_notify(SERVE_EGRESS_HUNG, slot) ? 0 : -1, "it is asked for again");
}

static void supervisor_replace_pull(void *arg)
{
	IGNORED(supervisor_notify(SERVE_PULL_HUNG, 0) ? 0 : -1, "it is asked for again");
}

static void supervisor_replace_cache(void *arg)
{
	IGNORED(supervisor_notify(SERVE_CACHE_HUNG, 0) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_notary(void *arg)
{
	IGNORED(supervisor_notify(SERVE_NOTARY_HUNG, 0) ? 0 : -1, "it is asked for again");
}

static void supervisor_replace_storage(void *arg)
{
	IGNORED(supervisor_notify(SERVE_STORAGE_HUNG, 0) ? 0 : -1, "it is asked for again");
}

static void supervisor_host(const struct serve_host *from, struct core_host *to)
{
	to->nlayers = from->nlayers;
	for (uint32_t i = 0; i < from->nlayers && i < CELL_LAYERS_MAX; i++) {
		to->layers[i].root = from->roots[i];
		memcpy(to->layers[i].at, from->at[i], CELL_PLACE_MAX);
	}
	str_copy(to->name, from->name);
	to->bytes = from->bytes;
}

void supervisor_options(const struct serve_setup *s, struct core_options *o)
{
	o->cgroups.version = (int)s->cgroup_version;
	o->cgroups.limits = s->limits;
	memcpy(o->cgroups.why, s->no_limits_why, sizeof(o->cgroups.why));
	memcpy(o->levels, s->levels, sizeof(o->levels));
	o->use_kvm = s->use_kvm != 0;
	memcpy(o->guest_key, s->guest_key, sizeof(o->guest_key));
	memcpy(o->guest_origin, s->guest_origin, sizeof(o->guest_origin));
	supervisor_host(&s->host, &o->host);
	o->template_root = s->template_root;
	memcpy(o->template_dir, s->template_dir, sizeof(o->template_dir));
	o->has_storage = o->has_volumes = true;
	o->storage_root = s->layers_root;
	o->volume_root = s->volumes_root;
	o->nkeepers = s->nkeepers;
	o->negress = s->negress;
	o->nroots = s->nroots;
	for (uint32_t i = 0; i < s->nroots; i++) {
		o->roots[i].root = s->roots[i].root;
		o->roots[i].writable = s->roots[i].writable != 0;
		memcpy(o->roots[i].path, s->roots[i].path, CELL_PATH_MAX);
	}
	o->replace_keeper = supervisor_replace_keeper;
	o->replace_egress = supervisor_replace_egress;
	o->replace_pull = supervisor_replace_pull;
	o->replace_cache = supervisor_replace_cache;
	o->replace_storage = supervisor_replace_storage;
}
