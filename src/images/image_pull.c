/* image_pull.c - theory of operation
 *
 *	start -> documents (take_document(): index, index, manifest, configuration)
 *	      -> image_make: open_layer() for each layer that is not there
 *	      -> the end
 *
 * A layer is good when cordon-storage has unpacked it (its uncompressed digest is the one in the
 * configuration) and cordon-pull has reported that the blob had the digest of the manifest. The two
 * verdicts come in any order; the rows wait for both (image_make's `pending`). If a blob breaks
 * off, both fail: then the registry's side is the cause that is reported, unless cordon-storage
 * stopped reading first (ERR_CONFLICT of the blob). */
#include "image_pull.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "event_log.h"
#include "list.h"
#include "log.h"
#include "pull_part.h"
#include "pull_policy.h"
#include "pull_spec.h"
#include "seal.h"
#include "secret_registry.h"
#include "tenant.h"

#define DEADLINE_MS 3600000
#define PATIENCE_MS 60000
#define VERDICT_MS 3000
#define PIPE_BYTES (1 << 20)

/* ---- the end */

static void release(struct image_pull *p)
{
	pull_link_end(&p->call);
	image_make_cancel(&p->make);
	loop_timer_cancel(core_loop(p->core), &p->verdict);
	LIST_REMOVE(p);
	free(p->manifest);
	p->manifest = NULL;
	if (p->config != NULL)
		oci_config_release(p->config);
	free(p->config);
	p->config = NULL;
}

static void record(struct image_pull *p, const struct err *why)
{
	struct err e;

	if (why == NULL)
		log_info("image pulled", "reference=%s digest=%s", p->reference, p->digest);
	else
		log_warn("image not pulled", "reference=%s error=%s", p->reference, why->msg);
	if (event_log_append(p->core, &p->actor, tenant_row(p->tenant)->id, "", "",
			     why == NULL ? "template.pulled" : "template.pull_failed", &e,
			     "reference\t%s\ndigest\t%s\ntemplate\t%s\nerror\t%s\n", p->reference,
			     p->digest, p->name, why == NULL ? "" : why->msg) < 0)
		log_error("event not written", "error=%s", e.msg);
}

static void end(struct image_pull *p, const struct err *e)
{
	struct err why = { 0 };

	if (e != NULL)
		why = *e;
	record(p, e);
	release(p);
	completion_end(&p->done, e == NULL ? NULL : &why);
}

/* What failed, as users see it. */
static void fail(struct image_pull *p, const char *word, const struct err *e)
{
	struct err why = *e;

	pull_spec_explain(p->reference, word, &why);
	end(p, &why);
}

void image_pull_cancel(struct image_pull *p)
{
	const bool running = p->link != NULL;
	struct err e;

	completion_cancel(&p->done);
	if (!running)
		return;
	(void)err_set(&e, ERR_CONFLICT, "cancelled");
	record(p, &e);
	release(p);
}

/* ---- layers */

static void tell(struct image_pull *p, struct image_pull_progress now)
{
	now.nlayers = p->manifest->nlayers;
	if (p->on_progress != NULL)
		p->on_progress(p, &now);
}

/* The number of a layer's blob: another one in the second attempt, so that what cordon-pull says
 * about the first does not count. */
static uint32_t blob_of(const struct image_pull *p, unsigned layer)
{
	return (p->is_second ? OCI_LAYERS_MAX : 0) + layer + 1;
}

/* Is it the blob of a layer in this attempt? */
static bool is_blob(const struct image_pull *p, uint32_t blob)
{
	return p->manifest != NULL && blob >= blob_of(p, 0) &&
	       blob < blob_of(p, p->manifest->nlayers);
}

/* cordon-pull writes into one end of a pipe, cordon-storage reads from the other. */
static int open_layer(struct image_make *m, unsigned i, struct image_layer_source *ret,
		      struct err *e)
{
	struct image_pull *p = m->arg;
	const struct oci_descriptor *d = &p->manifest->layers[i];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe of a layer");
	OWN_FD from = ends[0], to = ends[1];
	(void)fcntl(from, F_SETPIPE_SZ, PIPE_BYTES);
	p->blob = blob_of(p, i);
	if (pull_link_blob(&p->call, p->blob, d->digest.sha256, d->size, TAKE_FD(to), e) < 0)
		return -1;
	m->pending++;
	ret->fd = TAKE_FD(from);
	ret->from_registry = true;
	return 0;
}

static void on_layer(struct image_make *m, unsigned i, bool shared)
{
	struct image_pull *p = m->arg;

	tell(p, (struct image_pull_progress){ .event = IMAGE_PULL_LAYER,
					      .layer = i,
					      .size = p->sizes[i],
					      .shared = shared });
}

static void on_verdict(struct loop_timer *t)
{
	struct image_pull *p = t->arg;

	fail(p, "", &p->unpacked);
}

static void on_made(struct completion *c, const struct err *e)
{
	struct image_pull *p = c->arg;

	if (e == NULL) {
		p->made = p->make.made;
		end(p, NULL);
	} else if ((e->code == ERR_CONFLICT || e->code == ERR_NOT_FOUND) && !p->is_second) {
		/* a layer that was there has lost its last use meanwhile: now it is fetched, too */
		p->is_second = true;
		image_make_start(&p->make);
	} else if (p->make.pending > 0 && p->unpacked.code == ERR_NONE) {
		p->unpacked = *e;
		loop_timer_set(core_loop(p->core), &p->verdict,
			       clock_now_ns() + VERDICT_MS * CLOCK_MS);
	} else {
		fail(p, "", e);
	}
}

static void on_blob(struct pull_call *c, uint32_t blob, const struct err *e)
{
	struct image_pull *p = c->arg;

	if (p->make.pending == 0 || !is_blob(p, blob))
		return; /* nothing was asked for */
	if (p->unpacked.code != ERR_NONE)
		fail(p, "", e == NULL || e->code == ERR_CONFLICT ? &p->unpacked : e);
	else if (e == NULL)
		image_make_confirm(&p->make);
	else if (e->code != ERR_CONFLICT) /* else cordon-storage says why */
		fail(p, "", e);
}

static void on_progress(struct pull_call *c, uint32_t blob, uint64_t bytes)
{
	struct image_pull *p = c->arg;

	if (!is_blob(p, blob) || blob != p->blob)
		return;
	tell(p, (struct image_pull_progress){ .event = IMAGE_PULL_BYTES,
					      .layer = blob - blob_of(p, 0),
					      .bytes = bytes,
					      .size = p->sizes[blob - blob_of(p, 0)] });
}

static void make(struct image_pull *p)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < p->manifest->nlayers; i++) {
		p->sizes[i] = p->manifest->layers[i].size;
		total += p->sizes[i];
	}
	tell(p, (struct image_pull_progress){ .event = IMAGE_PULL_RESOLVED, .total = total });
	p->make.core = p->core;
	p->make.tenant = p->tenant;
	p->make.config = p->config;
	p->make.sizes = p->sizes;
	p->make.name = p->name;
	p->make.tags = p->tags;
	p->make.actor = p->actor;
	p->make.provenance = p->provenance;
	p->make.open_layer = open_layer;
	p->make.on_layer = on_layer;
	p->make.arg = p;
	p->make.done.on_done = on_made;
	p->make.done.arg = p;
	(void)snprintf(p->provenance, sizeof(p->provenance), "image\t%s\ndigest\t%s\n",
		       p->reference, p->digest);
	image_make_start(&p->make);
}

/* ---- documents */

static int expect(struct image_pull *p, const struct oci_descriptor *d)
{
	p->expected = *d;
	p->has_expected = true;
	return 0;
}

static int take_index(struct image_pull *p, const uint8_t *data, size_t len, struct err *e)
{
	struct oci_descriptor next;
	enum oci_kind kind;

	if (++p->depth > OCI_INDEX_DEPTH_MAX)
		return err_set(e, ERR_INVALID, "indexes that name indexes");
	if (oci_index_choose(data, len, oci_platform_own(), NULL, &next, &kind, e) < 0)
		return -1;
	return expect(p, &next);
}

static int take_manifest(struct image_pull *p, const uint8_t *data, size_t len, struct err *e)
{
	p->manifest = malloc(sizeof(*p->manifest));
	assert(p->manifest != NULL);
	if (oci_manifest_read(data, len, p->manifest, e) < 0)
		return -1;
	p->has_manifest = true;
	return expect(p, &p->manifest->config);
}

static int take_config(struct image_pull *p, const uint8_t *data, size_t len, struct err *e)
{
	p->config = calloc(1, sizeof(*p->config));
	assert(p->config != NULL);
	if (oci_config_read(data, len, oci_platform_own(), p->config, e) < 0)
		return -1;
	if (p->config->nlayers != p->manifest->nlayers)
		return err_set(e, ERR_INVALID, "manifest and configuration differ in their layers");
	return 0;
}

/* It is the one that was asked for, or that the document before it named. */
static int check_document(struct image_pull *p, enum pull_document kind, const uint8_t *data,
			  size_t len, struct err *e)
{
	struct oci_digest digest;

	if (p->config != NULL || (kind == PULL_CONFIG) != p->has_manifest)
		return err_set(e, ERR_INVALID, "a document out of order");
	if (p->has_expected && p->expected.size != len)
		return err_set(e, ERR_INVALID, "a document of another size");
	if (p->has_expected)
		return oci_digest_check(&p->expected.digest, data, len, "document", e);
	if (p->ref.has_digest && oci_digest_check(&p->ref.digest, data, len, "image", e) < 0)
		return -1;
	oci_digest_of(data, len, &digest);
	oci_digest_text(&digest, p->digest);
	return 0;
}

static void on_document(struct pull_call *c, enum pull_document kind, const uint8_t *data,
			size_t len)
{
	struct image_pull *p = c->arg;
	struct err e;
	int result = check_document(p, kind, data, len, &e);

	if (result == 0)
		result = kind == PULL_INDEX    ? take_index(p, data, len, &e)
			 : kind == PULL_CONFIG ? take_config(p, data, len, &e)
					       : take_manifest(p, data, len, &e);
	if (result < 0)
		fail(p, "", &e);
	else if (kind == PULL_CONFIG)
		make(p);
}

static void on_failed(struct pull_call *c, const char *word, const struct err *e)
{
	struct image_pull *p = c->arg;

	/* with a manifest it is not the image that is missing */
	fail(p, p->has_manifest ? "" : word, e);
}

/* ---- the beginning */

static int check_bounds(const struct image_pull *p, const struct image_pulls *all, struct err *e)
{
	unsigned own = 0, n = 0;

	for (const struct image_pull *o = all->first; o != NULL; o = o->next) {
		own += o->tenant == p->tenant;
		n++;
	}
	if (own >= IMAGE_PULLS_TENANT_MAX || n >= PULL_PULLS_MAX)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "too many images are being pulled: at most %d of a tenant, "
				      "%d in all",
				      IMAGE_PULLS_TENANT_MAX, PULL_PULLS_MAX);
	return 0;
}

static int send(struct image_pull *p, struct image_pulls *all, const char *user,
		const char *password, bool aws, struct err *e)
{
	const struct config *config = core_config(p->core);
	char mirror[PULL_URL_MAX], digest[OCI_DIGEST_TEXT], hosts[PULL_HOSTS_MAX];
	struct pull_start start = { .host = pull_policy_server(p->ref.host),
				    .path = p->ref.path,
				    .reference = p->ref.tag,
				    .user = user,
				    .password = password,
				    .aws = aws,
				    .mirror = mirror,
				    .open_hosts = hosts,
				    .deadline_ms = DEADLINE_MS,
				    .patience_ms = PATIENCE_MS };

	pull_policy_mirror(config->image_mirror, p->ref.host, mirror);
	pull_policy_open_hosts(config->registries, mirror, hosts);
	if (user[0] != '\0') /* they are for the registry itself */
		mirror[0] = '\0';
	if (p->ref.has_digest) {
		oci_digest_text(&p->ref.digest, digest);
		start.reference = digest;
	}
	return pull_link_start(&all->link, &p->call, &start, e);
}

static int send_with_credentials(struct image_pull *p, struct image_pulls *all,
				 const struct image_pull_spec *spec, struct err *e)
{
	const char *user = spec->user == NULL ? "" : spec->user;
	const char *password = spec->password == NULL ? "" : spec->password;
	char *value = NULL, host[OCI_REF_HOST_MAX];
	size_t len = 0;
	int result;

	if (spec->secret != NULL && spec->secret[0] != '\0') {
		pull_spec_host_name(p->ref.host, host);
		if (secret_registry_open(p->core, p->tenant, spec->secret, host, &value, &len, e) <
		    0)
			return -1;
		user = value;
		password = value + strlen(value) + 1;
	}
	p->make.public_layers = user[0] == '\0';
	result = send(p, all, user, password, spec->aws, e);
	seal_wipe(value, len);
	return result;
}

int image_pull_start(struct image_pull *p, const struct image_pull_spec *spec, struct err *e)
{
	struct image_pulls *all = image_pulls_of(p->core);

	if (pull_spec_read(p, spec, e) < 0 || check_bounds(p, all, e) < 0)
		return -1;
	if (!pull_policy_allows(core_config(p->core)->registries, p->ref.host))
		return err_set(e, ERR_DENIED,
			       "registry %.100s is not one that this server may pull from "
			       "(registries)",
			       p->ref.host);
	p->call = (struct pull_call){ .on_document = on_document,
				      .on_progress = on_progress,
				      .on_blob = on_blob,
				      .on_failed = on_failed,
				      .arg = p };
	p->verdict = (struct loop_timer){ .on_expire = on_verdict, .arg = p };
	if (send_with_credentials(p, all, spec, e) < 0)
		return -1;
	LIST_PUSH(&all->first, p);
	completion_begin(&p->done, core_loop(p->core), NULL);
	return 0;
}
