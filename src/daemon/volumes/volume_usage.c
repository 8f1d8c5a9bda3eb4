#include "daemon/volumes/volume_usage.h"

#include "daemon/volumes/volume_state.h"
#include "lib/base/str.h"

#define USAGE_MS 60000

static void on_answer(struct completion *done, const struct err *e)
{
	struct volume_usage *u = done->arg;

	if (e == NULL) {
		u->bytes = u->job.reply.bytes;
		u->entries = u->job.reply.entries;
	}
	completion_end(&u->done, e);
}

void volume_usage_ask(struct core *c, const struct store_volume *v, struct volume_usage *u)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_USAGE, .deadline_ms = USAGE_MS },
				    .image = v->kind == VOLUME_IMAGE };

	u->node = volume_node(c);
	str_copy(r.volume, v->id);
	completion_begin(&u->done, core_loop(c), NULL);
	u->job = (struct storage_job){ .done = { .on_done = on_answer, .arg = u },
				       .fd = -1,
				       .tenant = v->tenant };
	storage_link_ask(u->node->storage, &u->job, &r, sizeof(r), NULL, 0);
}

void volume_usage_cancel(struct volume_usage *u)
{
	completion_cancel(&u->done);
	if (u->node != NULL)
		storage_link_cancel(u->node->storage, &u->job);
}
