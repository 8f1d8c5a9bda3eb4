/* template_stack.c - see template_stack.h. */
#include "daemon/template/template_stack.h"

#include <stdio.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/templates.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* Values of secrets in the folded layers go over to the new one. */
static int write_row(struct layer_fold *f, struct err *e)
{
	struct store_layer row = layers_row(&f->writing, &f->job.reply, "folded");

	for (size_t i = f->stay; i < f->stack->nlayers; i++)
		if (store_layer_value_copy(f->core->store, f->stack->layers[i], row.id, e) < 0)
			return -1;
	return store_layer_insert_held(f->core->store, &row, e);
}

/* A failure is logged, and the stack stays: `done` ends without an error in both cases. */
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

const char *template_stack_base(const struct core *c, const struct template_stack *s)
{
	return s->base == TEMPLATE_BASE_DIR    ? s->dir
	       : s->base == TEMPLATE_BASE_HOST ? c->o.host.name
					       : "";
}

/* Without a quota: the folded layer is made of layers that count already. */
static int template_stack_start(struct layer_fold *f, const char *tenant, struct err *e)
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
		str_copy(from[n], s->layers[n]);
		n++;
	}
	f->job.done = (struct completion){ .on_done = on_folded, .arg = f };
	f->job.fd = -1;
	f->job.tenant = f->writing.tenant;
	f->job.for_session = true;
	storage_link_fold_above(&f->core->storage, &f->job, f->writing.id, ids, n,
				(unsigned)f->stay, below[s->base], template_stack_base(f->core, s));
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
	if (s->nlayers > LAYER_FOLD_ABOVE && s->nlayers > stay + 1 &&
	    template_stack_start(f, tenant, &e) == 0)
		return;
	if (e.code != ERR_NONE)
		log_warn("layers could not be folded", "error=%s", e.msg);
	completion_end(&f->done, NULL);
}

void layer_fold_release(struct layer_fold *f)
{
	completion_cancel(&f->done);
	if (f->core == NULL)
		return;
	storage_link_cancel(&f->core->storage, &f->job);
	layers_settle(&f->core->layers, &f->writing, f->layer[0] != '\0');
	if (f->layer[0] != '\0')
		layers_unhold(&f->core->layers, f->layer);
	f->layer[0] = '\0';
	f->core = NULL;
}

/* "lay_" and lower-case letters and digits, so no id leaves its folder. */
bool template_stack_is_layer(const char *id)
{
	static const char prefix[] = "lay_";
	size_t n;

	if (strncmp(id, prefix, sizeof(prefix) - 1) != 0)
		return false;
	n = strspn(id + sizeof(prefix) - 1, "abcdefghijklmnopqrstuvwxyz0123456789");
	return n > 0 && n + sizeof(prefix) <= STORE_ID_MAX && id[sizeof(prefix) - 1 + n] == '\0';
}

static int read_base(const char *line, size_t n, struct template_stack *ret)
{
	if (n == 4 && memcmp(line, "host", 4) == 0) {
		ret->base = TEMPLATE_BASE_HOST;
	} else if (n == 4 && memcmp(line, "none", 4) == 0) {
		ret->base = TEMPLATE_BASE_NONE;
	} else if (n > 4 && n - 4 < sizeof(ret->dir) && memcmp(line, "dir ", 4) == 0) {
		ret->base = TEMPLATE_BASE_DIR;
		memcpy(ret->dir, line + 4, n - 4);
	} else {
		return -1;
	}
	return 0;
}

static int read_layer(const char *line, size_t n, struct template_stack *ret)
{
	char *id;

	if (ret->nlayers >= TEMPLATE_STACK_MAX || n >= STORE_ID_MAX)
		return -1;
	id = ret->layers[ret->nlayers++];
	memcpy(id, line, n);
	id[n] = '\0';
	return template_stack_is_layer(id) ? 0 : -1;
}

/* The first line is the base. A stack of nothing is malformed. */
static int read_text(const char *text, struct template_stack *ret)
{
	size_t n = strcspn(text, "\n");

	if (read_base(text, n, ret) < 0)
		return -1;
	for (text += n; *text == '\n' && text[1] != '\0'; text += n) {
		n = strcspn(++text, "\n");
		if (read_layer(text, n, ret) < 0)
			return -1;
	}
	return ret->base == TEMPLATE_BASE_NONE && ret->nlayers == 0 ? -1 : 0;
}

int template_stack_read(const struct store_template *t, struct template_stack *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	switch (t->kind) {
	case TEMPLATE_HOST:
		ret->base = TEMPLATE_BASE_HOST;
		return 0;
	case TEMPLATE_LAYERS:
		ret->base = TEMPLATE_BASE_DIR;
		if (strlen(t->layers) < sizeof(ret->dir)) {
			str_copy(ret->dir, t->layers);
			return 0;
		}
		break;
	case TEMPLATE_STACK:
	case TEMPLATE_SNAPSHOT:
		if (read_text(t->layers, ret) == 0)
			return 0;
		break;
	default:
		break;
	}
	return err_set(e, ERR_INVALID, "template %.60s: not available on this server", t->name);
}

int template_stack_push(struct template_stack *s, const char (*layers)[STORE_ID_MAX], size_t n,
			struct err *e)
{
	if (s->nlayers + n > TEMPLATE_STACK_MAX)
		return err_set(e, ERR_LIMIT, "a file system can have %d layers at most",
			       TEMPLATE_STACK_MAX);
	for (size_t i = 0; i < n; i++)
		memcpy(s->layers[s->nlayers++], layers[i], STORE_ID_MAX);
	return 0;
}

void template_stack_above(const struct template_stack *s, size_t n, struct template_stack *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = n; i < s->nlayers; i++)
		memcpy(ret->layers[ret->nlayers++], s->layers[i], STORE_ID_MAX);
}

void template_stack_write(const struct template_stack *s, char ret[TEMPLATE_STACK_TEXT])
{
	size_t cap = TEMPLATE_STACK_TEXT, at = 0;

	switch (s->base) {
	case TEMPLATE_BASE_HOST:
		at = (size_t)snprintf(ret, cap, "host");
		break;
	case TEMPLATE_BASE_DIR:
		at = (size_t)snprintf(ret, cap, "dir %s", s->dir);
		break;
	case TEMPLATE_BASE_NONE:
		at = (size_t)snprintf(ret, cap, "none");
		break;
	}
	for (size_t i = 0; i < s->nlayers; i++)
		at += (size_t)snprintf(ret + at, cap - at, "\n%s", s->layers[i]);
}

/* ---- the request to the keeper */

static void template_stack_put(struct keeper_create *r, const char *at, uint32_t root)
{
	str_copy(r->layer_at[r->nlayers], at);
	r->layer_from[r->nlayers++].root = root;
}

/* One place: the base's directory there, then that directory of each layer. */
static int plan_place(const struct core *c, const struct template_stack *s, uint32_t place,
		      struct keeper_create *r, struct err *e)
{
	const char *at = s->base == TEMPLATE_BASE_HOST ? c->o.host.layers[place].at : "/";

	if (r->nlayers + 1 + s->nlayers > CELL_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "a file system can have %d layers at most",
			       CELL_LAYERS_MAX);
	if (s->base == TEMPLATE_BASE_HOST) {
		template_stack_put(r, at, c->o.host.layers[place].root);
	} else if (s->base == TEMPLATE_BASE_DIR) {
		template_stack_put(r, at, c->o.template_root);
		str_copy(r->layer_from[r->nlayers - 1].path, s->dir);
	}
	for (size_t i = 0; i < s->nlayers; i++) {
		template_stack_put(r, at, c->o.storage_root);
		(void)snprintf(r->layer_from[r->nlayers - 1].path, CELL_PATH_MAX, "%s/%u",
			       s->layers[i], place);
	}
	return 0;
}

int template_stack_plan(const struct core *c, const struct template_stack *s,
			struct keeper_create *ret, struct err *e)
{
	uint32_t places = s->base == TEMPLATE_BASE_HOST ? c->o.host.nlayers : 1;

	if ((s->base == TEMPLATE_BASE_DIR && c->o.template_dir[0] == '\0') ||
	    (s->nlayers > 0 && !c->o.has_storage))
		return err_set(e, ERR_UNSUPPORTED, "template: not available on this server");
	ret->nlayers = 0;
	for (uint32_t i = 0; i < places; i++)
		if (plan_place(c, s, i, ret, e) < 0)
			return -1;
	return 0;
}

uint64_t template_stack_bytes(const struct core *c, const struct template_stack *s)
{
	struct store_layer row;
	uint64_t bytes = 0;
	struct err e;

	for (size_t i = 0; i < s->nlayers; i++)
		if (store_layer_get(c->store, s->layers[i], &row, &e) == 0)
			bytes += row.bytes;
	return bytes;
}
