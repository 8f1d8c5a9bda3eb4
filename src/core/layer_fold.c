/* layer_fold.c - see layer_fold.h. */
#include "layer_fold.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "log.h"
#include "store_layer.h"

static int write_row(struct layer_fold *f, struct err *e)
{
	struct store_layer row = { .kind = "folded",
				   .bytes = f->job.reply.bytes,
				   .entries = f->job.reply.entries,
				   .created_ms = core_now_ms() };

	memcpy(row.id, f->writing.id, sizeof(row.id));
	memcpy(row.tenant, f->writing.tenant, sizeof(row.tenant));
	return store_layer_insert_held(f->core->store, &row, e);
}

static void on_folded(struct completion *c, const struct err *e)
{
	struct layer_fold *f = c->arg;
	struct err why;
	bool made = e == NULL && write_row(f, &why) == 0;

	if (made) {
		memcpy(f->layer, f->writing.id, sizeof(f->layer));
		memcpy(f->stack->layers[f->stay], f->layer, sizeof(f->layer));
		f->stack->nlayers = f->stay + 1;
	} else {
		log_warn("layers could not be folded", "error=%s", e != NULL ? e->msg : why.msg);
	}
	layers_settle(&f->core->layers, &f->writing, made);
	completion_end(&f->done, NULL);
}

static int start(struct layer_fold *f, const char *tenant, struct err *e)
{
	static const uint32_t below[] = { [TEMPLATE_BASE_HOST] = STORAGE_FOLD_HOST,
					  [TEMPLATE_BASE_DIR] = STORAGE_FOLD_DIR,
					  [TEMPLATE_BASE_NONE] = STORAGE_FOLD_BOTTOM };
	const struct template_stack *s = f->stack;
	char from[TEMPLATE_STACK_MAX][STORAGE_ID_MAX];
	const char(*ids)[STORAGE_ID_MAX] = (const char(*)[STORAGE_ID_MAX])from;
	struct template_stack folded;
	uint64_t bytes;
	unsigned n = 0;

	template_stack_above(s, f->stay, &folded);
	bytes = template_stack_bytes(f->core, &folded);
	if (layers_admit(&f->core->layers, &f->writing, tenant, 0, bytes, bytes, e) < 0)
		return -1;
	while (n < s->nlayers) {
		(void)snprintf(from[n], STORAGE_ID_MAX, "%s", s->layers[n]);
		n++;
	}
	f->job.done = (struct completion){ .on_done = on_folded, .arg = f };
	f->job.fd = -1;
	f->job.tenant = f->writing.tenant;
	f->job.for_session = true;
	storage_link_fold_above(&f->core->storage, &f->job, f->writing.id, ids, n,
				(unsigned)f->stay, below[s->base],
				s->base == TEMPLATE_BASE_DIR ? s->dir : "");
	return 0;
}

void layer_fold(struct core *c, const char *tenant, struct template_stack *s, size_t stay,
		struct layer_fold *f)
{
	struct err e = { 0 };

	f->core = c;
	f->stack = s;
	f->stay = stay;
	f->layer[0] = '\0';
	completion_begin(&f->done, c->loop, NULL);
	if (s->nlayers > LAYER_FOLD_ABOVE && s->nlayers > stay + 1 && start(f, tenant, &e) == 0)
		return;
	if (e.code != ERR_NONE)
		log_warn("layers could not be folded", "error=%s", e.msg);
	completion_end(&f->done, NULL);
}

void layer_fold_release(struct layer_fold *f)
{
	struct err e;

	completion_cancel(&f->done);
	if (f->core == NULL)
		return;
	storage_link_cancel(&f->core->storage, &f->job);
	layers_settle(&f->core->layers, &f->writing, f->layer[0] != '\0');
	if (f->layer[0] != '\0' &&
	    store_layer_unuse(f->core->store, STORE_LAYER_HELD, f->layer, &e) < 0)
		log_warn("a layer stays held until the next start", "layer=%s error=%s", f->layer,
			 e.msg);
	f->layer[0] = '\0';
	f->core = NULL;
}
