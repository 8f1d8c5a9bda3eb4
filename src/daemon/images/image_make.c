/* image_make.c - theory of operation
 *
 * Steps: for each layer, lowest first: found, or admitted (layers.h), opened and unpacked. Then, if
 * there are many, all are folded into one. A layer with what sessions need (users, certificates) is
 * put on top. The rows are written. A step that asks cordon-storage
 * continues in on_unpacked(), on_folded() or on_arranged(). */
#include "daemon/images/image_make.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/template/template_stack.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/str.h"

/* A group beside the user is left out: programs get the groups that the image's files give the
 * user. */
static void image_row_set_user(struct image_row *r, const char *user)
{
	size_t n = strcspn(user, ":");

	(void)snprintf(r->user, sizeof(r->user), "%.*s", (int)n, user);
	if (r->user[0] == '\0')
		(void)snprintf(r->user, sizeof(r->user), "root");
}

static void image_row_set_command(struct image_row *r, const struct buf *command)
{
	json_init_heap(&r->command, (size_t)OCI_COMMAND_BYTES_MAX * 8);
	json_open(&r->command, NULL, '[');
	for (size_t at = 0; at < command->len;) {
		const char *word = (const char *)command->data + at;
		size_t n = strnlen(word, command->len - at);

		json_bytes(&r->command, NULL, word, n);
		at += n + 1;
	}
	json_close(&r->command, ']');
}

/* An offered command that does not fit is left out. */
void image_row_fill(struct image_row *r, const struct oci_config *c, struct store_template *row)
{
	image_row_set_user(r, c->user);
	image_row_set_command(r, &c->command);
	row->env = c->env.len > 0 ? (const void *)c->env.data : "";
	row->env_len = c->env.len;
	row->user = r->user;
	row->workdir = c->workdir;
	row->offered_command = c->command.len > 0 && json_ok(&r->command) ? r->command.text : "";
}

void image_row_release(struct image_row *r)
{
	json_release(&r->command);
}

#define LEAST_BYTES (1U << 20)
#define PLACES_MAX (OCI_LAYERS_MAX + 2) /* each layer, the folded one, and the arranged one */

/* One place of the stack. A found layer has only its row. */
struct image_made_layer {
	struct store_layer row;	      /* id and digest. The rest of new ones only */
	struct layer_writing writing; /* of new ones */
	bool is_new;
};

static void image_make_next(struct image_make *m);

/* The tenant that owns new layers. "": all may use them. */
static const char *image_make_scope_of(const struct image_make *m)
{
	return m->public_layers ? "" : tenant_row(m->tenant)->id;
}

/* ---- the end */

/* kept: the rows exist, so the new directories stay. Otherwise they are removed. */
static void image_make_release(struct image_make *m, bool kept)
{
	struct layers *l = core_layers(m->core);

	storage_link_cancel(core_storage(m->core), &m->job);
	/* The one in progress is at nlayers. When all places are used, there is none. */
	for (unsigned i = 0; i < PLACES_MAX; i++)
		layers_settle(l, &m->layers[i].writing, kept && i < m->nlayers);
	free(m->layers);
	m->layers = NULL;
	m->nlayers = 0;
	m->running = m->is_ready = false;
}

static void image_make_fail(struct image_make *m, const struct err *e)
{
	struct err why = *e;

	image_make_release(m, false);
	completion_end(&m->done, &why);
}

void image_make_cancel(struct image_make *m)
{
	completion_cancel(&m->done);
	if (m->running)
		image_make_release(m, false);
}

/* ---- layers */

void image_make_chain(const struct oci_digest *below, const struct oci_digest *diff_id,
		      struct oci_digest *ret)
{
	char text[2 * OCI_DIGEST_TEXT];

	if (below == NULL) {
		*ret = *diff_id;
		return;
	}
	oci_digest_text(below, text);
	text[OCI_DIGEST_TEXT - 1] = ' ';
	oci_digest_text(diff_id, text + OCI_DIGEST_TEXT);
	oci_digest_of(text, 2 * OCI_DIGEST_TEXT - 1, ret);
}

/* Layers of public images serve private ones, too, but not the other way round. */
static bool image_make_find(struct image_make *m, const char *digest, struct store_layer *ret)
{
	struct store *s = core_store(m->core);
	struct err e;

	return store_layer_find(s, image_make_scope_of(m), digest, ret, &e) == 0 ||
	       (!m->public_layers && store_layer_find(s, "", digest, ret, &e) == 0);
}

/* The place of the next layer. It may be admitted already. */
static struct image_made_layer *image_make_top(struct image_make *m)
{
	assert(m->nlayers < PLACES_MAX);
	return &m->layers[m->nlayers];
}

/* A layer that exists goes on the stack as it is. */
static void image_make_add_found(struct image_make *m, const struct store_layer *row)
{
	image_make_top(m)->row = *row;
	m->nlayers++;
	m->bytes += row->bytes;
	m->entries += row->entries;
}

/* The bytes kept free for a layer while it is unpacked. It may turn out larger. */
static uint64_t image_make_guess(const struct image_make *m)
{
	uint64_t size = m->sizes != NULL && m->next < m->config->nlayers ? m->sizes[m->next] : 0;

	return LEAST_BYTES + (size < IMAGE_BYTES_MAX / 4 ? size * 4 : IMAGE_BYTES_MAX);
}

/* The bytes that other pulls of the tenant write just now: no row has them yet. */
static uint64_t image_make_paid_by_others(const struct image_make *m, const char *tenant)
{
	uint64_t sum = layers_paid(core_layers(m->core), tenant);

	for (unsigned i = 0; i < m->nlayers; i++)
		if (m->layers[i].writing.link != NULL)
			sum -= m->layers[i].writing.paid;
	return sum;
}

/* Shared layers belong to no tenant. They count for each whose templates use them, when it pulls
 * another: each of them can have a registry, and would fill the disk. The operator may. */
static int image_make_check_shared(const struct image_make *m, uint64_t max, uint64_t *left,
				   struct err *e)
{
	const char *tenant = tenant_row(m->tenant)->id;
	uint64_t shared = 0, own = 0, n, used;

	if (max == 0 || m->tenant == tenant_operator(m->core))
		return 0;
	if (store_layer_shared(core_store(m->core), tenant, &shared, e) < 0 ||
	    layers_used(core_layers(m->core), tenant, &own, &n, e) < 0)
		return -1;
	used = shared + own + m->bytes + image_make_paid_by_others(m, tenant);
	if (used + LEAST_BYTES > max)
		used -= layers_give_up(core_layers(m->core), tenant, used + LEAST_BYTES - max);
	if (used + LEAST_BYTES > max)
		return err_set_reason(e, REASON_QUOTA_STORED,
				      "a tenant may store %llu bytes (tenant_max_stored): %llu are "
				      "used by it or by public images of its templates",
				      (unsigned long long)max, (unsigned long long)used);
	if (max - used < *left)
		*left = max - used;
	/* Other pulls at the same time have a part of it, too. */
	*left = *left / 2 > image_make_guess(m) ? *left / 2
		: image_make_guess(m) < *left	? image_make_guess(m)
						: *left;
	return 0;
}

/* A place for one more layer, and how many bytes it may have. */
static int image_make_admit(struct image_make *m, uint64_t *ret_max, struct err *e)
{
	struct layers *l = core_layers(m->core);
	uint64_t left = IMAGE_BYTES_MAX > m->bytes ? IMAGE_BYTES_MAX - m->bytes : 0, may_take;
	struct quota_limits limits;

	if (left < LEAST_BYTES || m->entries >= IMAGE_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "the image is larger than %llu GiB or %d files",
			       (unsigned long long)(IMAGE_BYTES_MAX >> 30), IMAGE_ENTRIES_MAX);
	quota_limits(m->core, m->tenant, &limits);
	if (m->public_layers && image_make_check_shared(m, limits.stored, &left, e) < 0)
		return -1;
	if (m->public_layers)
		limits.stored = 0; /* this was all */
	may_take = left;
	if (layers_admit(l, &image_make_top(m)->writing, image_make_scope_of(m), limits.stored,
			 LEAST_BYTES, image_make_guess(m), e) < 0)
		return -1;
	if (m->public_layers) {
		str_copy(image_make_top(m)->writing.payer, tenant_row(m->tenant)->id);
		image_make_top(m)->writing.paid = may_take;
	}
	if (image_make_top(m)->writing.quota_left < left)
		left = image_make_top(m)->writing.quota_left;
	*ret_max = layers_room(l) < left ? layers_room(l) : left;
	return 0;
}

/* The present layer has been written: it becomes the uppermost. */
static void image_make_take_written(struct image_make *m, const char *digest)
{
	const struct storage_reply *r = &m->job.reply;
	struct image_made_layer *l = image_make_top(m);

	l->row = layers_row(&l->writing, r, "image");
	str_copy(l->row.digest, digest);
	l->is_new = true;
	l->writing.bytes = r->bytes;
	l->writing.paid = r->bytes;
	m->nlayers++;
	m->bytes += r->bytes;
	m->entries += r->entries;
}

static void image_make_layer_done(struct image_make *m, bool shared)
{
	unsigned i = m->next++;

	if (m->on_layer != NULL)
		m->on_layer(m, i, shared);
	image_make_next(m);
}

static void on_unpacked(struct completion *c, const struct err *e)
{
	struct image_make *m = c->arg;
	char digest[OCI_DIGEST_TEXT];

	if (e != NULL) {
		image_make_fail(m, e);
		return;
	}
	oci_digest_text(&m->chain, digest);
	image_make_take_written(m, m->rootfs ? "" : digest);
	image_make_layer_done(m, false);
}

/* Admit the next layer, open its source and give both to cordon-storage. on_unpacked() follows. */
static int image_make_unpack(struct image_make *m, struct err *e)
{
	struct storage_unpack r = { .format = m->rootfs ? STORAGE_ROOTFS : STORAGE_OCI_LAYER,
				    .flags = m->rootfs ? 0 : STORAGE_CHECK_SHA256,
				    .nlower = m->nlayers,
				    .reserve_percent =
					    (uint32_t)core_layers(m->core)->reserve_percent };
	struct image_layer_source source = { .fd = -1 };

	if (image_make_admit(m, &r.bytes_max, e) < 0)
		return -1;
	r.entries_max = IMAGE_ENTRIES_MAX - m->entries;
	if (r.entries_max > image_make_top(m)->writing.entries)
		r.entries_max = image_make_top(m)->writing.entries;
	memcpy(r.sha256, m->config->diff_ids[m->next].sha256, sizeof(r.sha256));
	str_copy(r.layer, image_make_top(m)->writing.id);
	for (unsigned i = 0; i < m->nlayers; i++)
		str_copy(r.lower[i], m->layers[i].row.id);
	if (m->open_layer(m, m->next, &source, e) < 0)
		return -1;
	if (source.from_registry)
		r.flags |= STORAGE_FROM_REGISTRY;
	r.from = source.from;
	r.length = source.length;
	m->job.done.on_done = on_unpacked;
	m->job.done.arg = m;
	m->job.tenant = tenant_row(m->tenant)->id;
	storage_link_unpack(core_storage(m->core), &m->job, &r, source.fd);
	return 0;
}

/* ---- the rows */

/* Layers below `first` were folded and get no row. */
static int image_make_insert(struct image_make *m, struct err *e)
{
	struct template_stack *stack = calloc(1, sizeof(*stack));
	struct store_layer *rows = calloc(m->nlayers + 1, sizeof(*rows));
	char *text = malloc(TEMPLATE_STACK_TEXT);
	struct template_new_layers made = { .rows = rows };
	struct image_row texts = { 0 };
	struct store_template row = { .kind = TEMPLATE_STACK,
				      .bytes = m->bytes,
				      .mounts = "",
				      .start_command = "",
				      .ready_command = "",
				      .provenance = m->provenance };

	assert(stack != NULL && rows != NULL && text != NULL);
	image_row_fill(&texts, m->config, &row);
	if (m->rootfs)
		row.user = ""; /* nothing said otherwise */
	if (m->user != NULL && m->user[0] != '\0')
		row.user = m->user;
	if (m->workdir != NULL && m->workdir[0] != '\0')
		row.workdir = m->workdir;
	row.public = m->public_template;
	stack->base = TEMPLATE_BASE_NONE;
	for (unsigned i = m->first; i < m->nlayers; i++) {
		const struct image_made_layer *l = &m->layers[i];

		str_copy(stack->layers[stack->nlayers++], l->row.id);
		if (l->is_new)
			rows[made.n++] = l->row;
	}
	template_stack_write(stack, text);
	row.layers = text;
	str_copy(row.name, m->name);
	if (m->private_template || m->tenant != tenant_operator(m->core))
		str_copy(row.tenant, tenant_row(m->tenant)->id);
	m->made = templates_insert(m->core, &row, m->tags, m->ntags, &made, &m->actor, e);
	image_row_release(&texts);
	free(stack);
	free(rows);
	free(text);
	return m->made == NULL ? -1 : 0;
}

/* Called again by image_make_confirm() while blobs are pending. */
static void image_make_finish(struct image_make *m)
{
	struct err e;

	m->is_ready = true;
	if (m->pending > 0)
		return;
	if (image_make_insert(m, &e) < 0) {
		image_make_fail(m, &e);
		return;
	}
	image_make_release(m, true);
	completion_end(&m->done, NULL);
}

void image_make_confirm(struct image_make *m)
{
	m->pending--;
	if (m->is_ready)
		image_make_finish(m);
}

/* ---- what sessions need, on top */

static void on_arranged(struct completion *c, const struct err *e)
{
	struct image_make *m = c->arg;

	if (e != NULL) {
		image_make_fail(m, e);
		return;
	}
	image_make_take_written(m, "");
	image_make_finish(m);
}

/* on_arranged() follows. The layer belongs to this template only, so it has no digest. */
static void image_make_arrange(struct image_make *m)
{
	unsigned n = m->nlayers - m->first;
	char(*lower)[STORAGE_ID_MAX] = calloc(n, sizeof(*lower));
	uint64_t max;
	struct err e;

	assert(lower != NULL);
	if (image_make_admit(m, &max, &e) < 0) {
		free(lower);
		image_make_fail(m, &e);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		str_copy(lower[i], m->layers[m->first + i].row.id);
	m->job.done.on_done = on_arranged;
	m->job.done.arg = m;
	m->job.tenant = tenant_row(m->tenant)->id;
	storage_link_arrange(core_storage(m->core), &m->job, image_make_top(m)->writing.id,
			     (const char(*)[STORAGE_ID_MAX])lower, n,
			     core_options(m->core)->host.name);
	free(lower);
}

/* ---- many layers become one */

static void image_make_fold_digest(const struct image_make *m, char ret[STORE_LAYER_DIGEST_MAX])
{
	char digest[OCI_DIGEST_TEXT];

	oci_digest_text(&m->chain, digest);
	(void)snprintf(ret, STORE_LAYER_DIGEST_MAX, "fold:%s", digest);
}

/* Only the folded layer stays. The others have no row, and their files are links of its own. */
static void image_make_drop_layers(struct image_make *m)
{
	for (unsigned i = 0; i < m->nlayers; i++)
		layers_settle(core_layers(m->core), &m->layers[i].writing, false);
	m->first = m->nlayers;
}

static void on_folded(struct completion *c, const struct err *e)
{
	struct image_make *m = c->arg;
	char digest[STORE_LAYER_DIGEST_MAX];

	if (e != NULL) {
		image_make_fail(m, e);
		return;
	}
	image_make_drop_layers(m);
	image_make_fold_digest(m, digest);
	image_make_take_written(m, digest);
	image_make_arrange(m);
}

/* on_folded() follows. The digest of the chain finds the folded layer for the next pull. */
static void image_make_fold(struct image_make *m)
{
	char(*from)[STORAGE_ID_MAX] = calloc(m->nlayers, sizeof(*from));
	uint64_t max;
	struct err e;

	assert(from != NULL);
	m->bytes = m->entries = 0; /* it replaces the others */
	if (image_make_admit(m, &max, &e) < 0) {
		free(from);
		image_make_fail(m, &e);
		return;
	}
	for (unsigned i = 0; i < m->nlayers; i++)
		str_copy(from[i], m->layers[i].row.id);
	m->job.done.on_done = on_folded;
	m->job.done.arg = m;
	m->job.tenant = tenant_row(m->tenant)->id;
	storage_link_fold(core_storage(m->core), &m->job, image_make_top(m)->writing.id,
			  (const char(*)[STORAGE_ID_MAX])from, m->nlayers);
	free(from);
}

/* ---- the order of steps */

/* Take the next layer of the configuration, or end the stack. May end m, so callers return at once.
 */
static void image_make_next(struct image_make *m)
{
	const struct oci_config *c = m->config;
	char digest[OCI_DIGEST_TEXT];
	struct store_layer row;
	struct err e;

	if (m->next == c->nlayers) {
		if (m->nlayers - m->first > IMAGE_FOLD_ABOVE)
			image_make_fold(m);
		else
			image_make_arrange(m);
		return;
	}
	if (m->rootfs) {
		if (image_make_unpack(m, &e) < 0)
			image_make_fail(m, &e);
		return;
	}
	image_make_chain(m->next == 0 ? NULL : &m->chain, &c->diff_ids[m->next], &m->chain);
	oci_digest_text(&m->chain, digest);
	if (image_make_find(m, digest, &row)) {
		image_make_add_found(m, &row);
		image_make_layer_done(m, true);
	} else if (image_make_unpack(m, &e) < 0) {
		image_make_fail(m, &e);
	}
}

/* An image of many layers made before is one layer. */
static bool image_make_find_folded(struct image_make *m)
{
	char digest[STORE_LAYER_DIGEST_MAX];
	struct store_layer row;

	if (m->config->nlayers <= IMAGE_FOLD_ABOVE)
		return false;
	for (unsigned i = 0; i < m->config->nlayers; i++)
		image_make_chain(i == 0 ? NULL : &m->chain, &m->config->diff_ids[i], &m->chain);
	image_make_fold_digest(m, digest);
	if (!image_make_find(m, digest, &row))
		return false;
	image_make_add_found(m, &row);
	m->next = m->config->nlayers;
	return true;
}

void image_make_start(struct image_make *m)
{
	m->layers = calloc(PLACES_MAX, sizeof(*m->layers));
	assert(m->layers != NULL);
	m->running = true;
	m->is_ready = false;
	m->pending = 0;
	m->job.fd = -1;
	m->first = m->nlayers = m->next = 0;
	m->bytes = m->entries = 0;
	completion_begin(&m->done, core_loop(m->core), NULL);
	if (image_make_find_folded(m) && m->on_layer != NULL)
		for (unsigned i = 0; i < m->next; i++)
			m->on_layer(m, i, true);
	image_make_next(m);
}
