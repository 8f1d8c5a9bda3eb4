/* image_pull.c - theory of operation
 *
 *	start -> documents (on_document(): index, index, manifest, configuration)
 *	      -> image_make: image_pull_open_layer() for each missing layer
 *	      -> the end
 *
 * A layer is good when cordon-storage has unpacked it (its uncompressed digest is the one in the
 * configuration) and cordon-pull has reported that the blob had the digest of the manifest. The two
 * verdicts come in any order. The rows wait for both (image_make's `pending`). If a blob breaks
 * off, both fail: then the registry's side is reported as the cause, unless cordon-storage stopped
 * reading first (ERR_CONFLICT of the blob). */
#include "daemon/images/image_pull.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret.h"
#include "daemon/session/session_hooks.h"
#include "daemon/template/template_name.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* ---- the node's data for pulls */

struct image_pulls {
	struct pull_link link;
	struct image_pull *first; /* list.h */
};

static struct image_pulls *image_pulls_of(const struct core *c)
{
	return *session_parts_of_core(c, &pull_part);
}

/* The channel comes later, by image_pull_set_channel(). */
static int image_pull_setup(struct core *c, struct err *e)
{
	struct image_pulls *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	pull_link_init(&p->link, core_loop(c));
	p->link.on_hung = core_options(c)->replace_pull;
	p->link.arg = core_options(c)->arg;
	*session_parts_of_core(c, &pull_part) = p;
	return 0;
}

static void image_pull_let_go(struct core *c)
{
	struct image_pulls *p = image_pulls_of(c);

	if (p == NULL)
		return;
	while (p->first != NULL)
		image_pull_cancel(p->first);
	pull_link_release(&p->link);
	free(p);
	*session_parts_of_core(c, &pull_part) = NULL;
}

int image_pull_set_channel(struct core *c, int channel, struct err *e)
{
	return pull_link_attach(&image_pulls_of(c)->link, channel, e);
}

const struct session_part pull_part = { .name = "pulls",
					.setup = image_pull_setup,
					.release = image_pull_let_go };

/* The next item of a list, separated by commas or spaces. False at its end. */
static bool pull_policy_next_item(const char **at, const char **ret, size_t *ret_n)
{
	*at += strspn(*at, ", ");
	*ret = *at;
	*ret_n = strcspn(*at, ", ");
	*at += *ret_n;
	return *ret_n > 0;
}

/* Without the port. */
static size_t pull_policy_name_length(const char *host)
{
	const char *end = strrchr(host, ']'), *colon = strrchr(host, ':');

	return colon != NULL && (end == NULL || colon > end) ? (size_t)(colon - host)
							     : strlen(host);
}

static bool pull_policy_same(const char *item, size_t n, const char *host, size_t len)
{
	return n == len && strncasecmp(item, host, n) == 0;
}

/* "*.example.com" fits names below it, at any port, but not example.com. Case does not count. */
static bool pull_policy_fits(const char *item, size_t n, const char *host)
{
	size_t name = pull_policy_name_length(host);

	if (n == 1 && item[0] == '*')
		return true;
	if (n > 2 && item[0] == '*' && item[1] == '.')
		return name > n - 1 && strncasecmp(host + name - (n - 1), item + 1, n - 1) == 0;
	return pull_policy_same(item, n, host, strlen(host)) ||
	       pull_policy_same(item, n, host, name);
}

bool pull_policy_allows(const char *registries, const char *host)
{
	const char *item;
	size_t n;

	while (pull_policy_next_item(&registries, &item, &n))
		if (pull_policy_fits(item, n, host))
			return true;
	return false;
}

/* The first item for the host counts. A URL that is too long counts as none. */
void pull_policy_mirror(const char *mirrors, const char *host, char ret[PULL_URL_MAX])
{
	const char *item;
	size_t n;

	ret[0] = '\0';
	while (ret[0] == '\0' && pull_policy_next_item(&mirrors, &item, &n)) {
		const char *eq = memchr(item, '=', n);
		size_t key = eq == NULL ? 0 : (size_t)(eq - item);

		if (eq != NULL && pull_policy_same(item, key, host, strlen(host)) &&
		    n - key - 1 < PULL_URL_MAX)
			(void)snprintf(ret, PULL_URL_MAX, "%.*s", (int)(n - key - 1), eq + 1);
	}
}

static void pull_policy_add(char ret[PULL_HOSTS_MAX], const char *host, size_t n)
{
	size_t at = strlen(ret);

	if (at + n + 2 < PULL_HOSTS_MAX)
		(void)snprintf(ret + at, PULL_HOSTS_MAX - at, "%s%.*s", at > 0 ? "," : "", (int)n,
			       host);
}

/* Patterns open no private addresses. Hosts beyond the buffer are left out, and stay closed. */
void pull_policy_open_hosts(const char *registries, const char *mirror, char ret[PULL_HOSTS_MAX])
{
	const char *item, *host = strstr(mirror, "://");
	size_t n;

	ret[0] = '\0';
	while (pull_policy_next_item(&registries, &item, &n))
		if (item[0] != '*')
			pull_policy_add(ret, item, n);
	if (host != NULL)
		pull_policy_add(ret, host + 3, strcspn(host + 3, "/"));
}

const char *pull_policy_server(const char *host)
{
	return strcmp(host, "docker.io") == 0 ? "registry-1.docker.io" : host;
}

void pull_spec_host_name(const char *host, char ret[OCI_REF_HOST_MAX])
{
	const char *end = strrchr(host, ']'), *colon = strrchr(host, ':');
	size_t n = colon != NULL && (end == NULL || colon > end) ? (size_t)(colon - host)
								 : strlen(host);

	(void)snprintf(ret, OCI_REF_HOST_MAX, "%.*s", (int)n, host);
}

static int pull_spec_add_tag(struct image_pull *p, const char *tag, struct err *e)
{
	size_t n = p->make.ntags;

	if (n >= IMAGE_TAGS_MAX)
		return err_set(e, ERR_LIMIT, "at most %d tags", IMAGE_TAGS_MAX);
	if (!template_name_is_tag(tag) || strlen(tag) >= STORE_TAG_MAX)
		return err_set(e, ERR_INVALID, "Invalid tag: %.100s", tag);
	str_copy(p->tag_texts[n], tag);
	p->tags[n] = p->tag_texts[n];
	p->make.ntags++;
	return 0;
}

/* "library/python" becomes "python". Characters that a name may not have become '-'. */
static void pull_spec_name_of_path(const char *path, char ret[STORE_NAME_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t n = 0;

	for (const char *at = slash == NULL ? path : slash + 1; *at != '\0' && n < 62; at++)
		ret[n++] = (char)(*at == '.' ? '-' : *at);
	ret[n] = '\0';
}

/* A name in the request wins over the reference, with its tag. */
static int pull_spec_read_name(struct image_pull *p, const struct image_pull_spec *spec,
			       struct err *e)
{
	struct template_name name = { 0 };

	if (spec->name == NULL || spec->name[0] == '\0') {
		pull_spec_name_of_path(p->ref.path, p->name);
		if (!p->ref.has_digest && strcmp(p->ref.tag, "latest") != 0 &&
		    template_name_is_tag(p->ref.tag))
			str_copy(name.tag, p->ref.tag);
	} else {
		if (template_name_read(spec->name, &name, e) < 0)
			return -1;
		str_copy(p->name, name.name);
	}
	if (name.space[0] != '\0' || !templates_is_name(p->name))
		return err_set(e, ERR_INVALID, "Invalid name: %.100s",
			       name.space[0] != '\0' ? spec->name : p->name);
	return name.tag[0] == '\0' ? 0 : pull_spec_add_tag(p, name.tag, e);
}

int pull_spec_read(struct image_pull *p, const struct image_pull_spec *spec, struct err *e)
{
	p->make.ntags = 0;
	if (oci_ref_read(spec->reference, &p->ref, e) < 0)
		return err_wrap(e, "reference");
	oci_ref_text(&p->ref, p->reference);
	if (pull_spec_read_name(p, spec, e) < 0)
		return -1;
	for (size_t i = 0; i < spec->ntags; i++)
		if (pull_spec_add_tag(p, spec->tags[i], e) < 0)
			return -1;
	return 0;
}

void pull_spec_explain(const char *reference, const char *word, struct err *e)
{
	struct err why = *e;

	if (e->code == ERR_NOT_FOUND && strcmp(word, "NAME_UNKNOWN") == 0)
		(void)err_set(e, ERR_NOT_FOUND,
			      "repository '%.120s' not found: verify the image name is correct",
			      reference);
	else if (e->code == ERR_NOT_FOUND && word[0] != '\0')
		(void)err_set(e, ERR_NOT_FOUND,
			      "image '%.120s' not found: the image or tag does not exist in the "
			      "registry",
			      reference);
	else if (e->code == ERR_DENIED && word[0] != '\0')
		(void)err_set(e, ERR_DENIED,
			      "access denied to '%.120s': authentication required or insufficient "
			      "permissions",
			      reference);
	else if (e->reason == REASON_NONE)
		(void)err_set(e, why.code, "failed to pull image '%.100s': %.110s", reference,
			      why.msg);
	else
		(void)err_set_reason(e, why.reason, "failed to pull image '%.100s': %.110s",
				     reference, why.msg);
	e->sys = why.sys;
}

#define DEADLINE_MS 3600000
#define PATIENCE_MS 60000
#define VERDICT_MS 3000
#define PIPE_BYTES (1 << 20)

/* ---- the end */

/* Everything but p->done. Nothing of cordon-pull or cordon-storage reports afterwards. */
static void image_pull_release(struct image_pull *p)
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

/* Every pull that began ends with one event, a cancelled one too. */
static void image_pull_record(struct image_pull *p, const struct err *why)
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

static void image_pull_end(struct image_pull *p, const struct err *e)
{
	struct err why = { 0 };

	if (e != NULL)
		why = *e;
	image_pull_record(p, e);
	image_pull_release(p);
	completion_end(&p->done, e == NULL ? NULL : &why);
}

/* The failure, as users see it. */
static void image_pull_fail(struct image_pull *p, const char *word, const struct err *e)
{
	struct err why = *e;

	pull_spec_explain(p->reference, word, &why);
	image_pull_end(p, &why);
}

void image_pull_cancel(struct image_pull *p)
{
	const bool running = p->link != NULL;
	struct err e;

	completion_cancel(&p->done);
	if (!running)
		return;
	(void)err_set(&e, ERR_CONFLICT, "cancelled");
	image_pull_record(p, &e);
	image_pull_release(p);
}

/* ---- layers */

static void image_pull_tell(struct image_pull *p, struct image_pull_progress now)
{
	now.nlayers = p->manifest->nlayers;
	if (p->on_progress != NULL)
		p->on_progress(p, &now);
}

/* The number of a layer's blob: another one in the second attempt, so that what cordon-pull says
 * about the first does not count. */
static uint32_t image_pull_blob_of(const struct image_pull *p, unsigned layer)
{
	return (p->is_second ? OCI_LAYERS_MAX : 0) + layer + 1;
}

/* Is it the blob of a layer in this attempt? */
static bool image_pull_is_blob(const struct image_pull *p, uint32_t blob)
{
	return p->manifest != NULL && blob >= image_pull_blob_of(p, 0) &&
	       blob < image_pull_blob_of(p, p->manifest->nlayers);
}

/* cordon-pull writes into one end of a pipe, cordon-storage reads from the other. */
static int image_pull_open_layer(struct image_make *m, unsigned i, struct image_layer_source *ret,
				 struct err *e)
{
	struct image_pull *p = m->arg;
	const struct oci_descriptor *d = &p->manifest->layers[i];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe of a layer");
	OWN_FD from = ends[0], to = ends[1];
	(void)fcntl(from, F_SETPIPE_SZ, PIPE_BYTES);
	p->blob = image_pull_blob_of(p, i);
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

	image_pull_tell(p, (struct image_pull_progress){ .event = IMAGE_PULL_LAYER,
							 .layer = i,
							 .size = p->sizes[i],
							 .shared = shared });
}

/* cordon-pull has said nothing about the blob in time, so the error of unpacking is reported. */
static void on_verdict(struct loop_timer *t)
{
	struct image_pull *p = t->arg;

	image_pull_fail(p, "", &p->unpacked);
}

/* The end of image_make. A failure waits for the verdict on the blob, which may be its cause. */
static void on_made(struct completion *c, const struct err *e)
{
	struct image_pull *p = c->arg;

	if (e == NULL) {
		p->made = p->make.made;
		image_pull_end(p, NULL);
	} else if ((e->code == ERR_CONFLICT || e->code == ERR_NOT_FOUND) && !p->is_second) {
		/* a layer found before has lost its last use: now it is fetched, too */
		p->is_second = true;
		image_make_start(&p->make);
	} else if (p->make.pending > 0 && p->unpacked.code == ERR_NONE) {
		p->unpacked = *e;
		loop_timer_set(core_loop(p->core), &p->verdict,
			       clock_now_ns() + VERDICT_MS * CLOCK_MS);
	} else {
		image_pull_fail(p, "", e);
	}
}

static void on_blob(struct pull_call *c, uint32_t blob, const struct err *e)
{
	struct image_pull *p = c->arg;

	if (p->make.pending == 0 || !image_pull_is_blob(p, blob))
		return; /* nothing was asked for */
	if (p->unpacked.code != ERR_NONE)
		image_pull_fail(p, "", e == NULL || e->code == ERR_CONFLICT ? &p->unpacked : e);
	else if (e == NULL)
		image_make_confirm(&p->make);
	else if (e->code != ERR_CONFLICT) /* else cordon-storage says why */
		image_pull_fail(p, "", e);
}

static void on_progress(struct pull_call *c, uint32_t blob, uint64_t bytes)
{
	struct image_pull *p = c->arg;

	if (!image_pull_is_blob(p, blob) || blob != p->blob)
		return;
	image_pull_tell(p, (struct image_pull_progress){
				   .event = IMAGE_PULL_BYTES,
				   .layer = blob - image_pull_blob_of(p, 0),
				   .bytes = bytes,
				   .size = p->sizes[blob - image_pull_blob_of(p, 0)] });
}

static void image_pull_make(struct image_pull *p)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < p->manifest->nlayers; i++) {
		p->sizes[i] = p->manifest->layers[i].size;
		total += p->sizes[i];
	}
	image_pull_tell(
		p, (struct image_pull_progress){ .event = IMAGE_PULL_RESOLVED, .total = total });
	p->make.core = p->core;
	p->make.tenant = p->tenant;
	p->make.config = p->config;
	p->make.sizes = p->sizes;
	p->make.name = p->name;
	p->make.tags = p->tags;
	p->make.actor = p->actor;
	p->make.provenance = p->provenance;
	p->make.open_layer = image_pull_open_layer;
	p->make.on_layer = on_layer;
	p->make.arg = p;
	p->make.done.on_done = on_made;
	p->make.done.arg = p;
	(void)snprintf(p->provenance, sizeof(p->provenance), "image\t%s\ndigest\t%s\n",
		       p->reference, p->digest);
	image_make_start(&p->make);
}

/* ---- documents */

static int image_pull_expect(struct image_pull *p, const struct oci_descriptor *d)
{
	p->expected = *d;
	p->has_expected = true;
	return 0;
}

/* The next document must be the one that fits this machine. */
static int image_pull_take_index(struct image_pull *p, const uint8_t *data, size_t len,
				 struct err *e)
{
	struct oci_descriptor next;
	enum oci_kind kind;

	if (++p->depth > OCI_INDEX_DEPTH_MAX)
		return err_set(e, ERR_INVALID, "indexes that name indexes");
	if (oci_index_choose(data, len, oci_platform_own(), NULL, &next, &kind, e) < 0)
		return -1;
	return image_pull_expect(p, &next);
}

static int image_pull_take_manifest(struct image_pull *p, const uint8_t *data, size_t len,
				    struct err *e)
{
	p->manifest = malloc(sizeof(*p->manifest));
	assert(p->manifest != NULL);
	if (oci_manifest_read(data, len, p->manifest, e) < 0)
		return -1;
	p->has_manifest = true;
	return image_pull_expect(p, &p->manifest->config);
}

static int image_pull_take_config(struct image_pull *p, const uint8_t *data, size_t len,
				  struct err *e)
{
	p->config = calloc(1, sizeof(*p->config));
	assert(p->config != NULL);
	if (oci_config_read(data, len, oci_platform_own(), p->config, e) < 0)
		return -1;
	if (p->config->nlayers != p->manifest->nlayers)
		return err_set(e, ERR_INVALID, "manifest and configuration differ in their layers");
	return 0;
}

/* It is the one asked for, or named by the document before it. */
static int image_pull_check_document(struct image_pull *p, enum pull_document kind,
				     const uint8_t *data, size_t len, struct err *e)
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
	int result = image_pull_check_document(p, kind, data, len, &e);

	if (result == 0)
		result = kind == PULL_INDEX    ? image_pull_take_index(p, data, len, &e)
			 : kind == PULL_CONFIG ? image_pull_take_config(p, data, len, &e)
					       : image_pull_take_manifest(p, data, len, &e);
	if (result < 0)
		image_pull_fail(p, "", &e);
	else if (kind == PULL_CONFIG)
		image_pull_make(p);
}

static void on_failed(struct pull_call *c, const char *word, const struct err *e)
{
	struct image_pull *p = c->arg;

	/* with a manifest the missing thing is not the image */
	image_pull_fail(p, p->has_manifest ? "" : word, e);
}

/* ---- the beginning */

static int image_pull_check_bounds(const struct image_pull *p, const struct image_pulls *all,
				   struct err *e)
{
	unsigned own = 0, n = 0;

	for (const struct image_pull *o = all->first; o != NULL; o = o->next) {
		own += o->tenant == p->tenant;
		n++;
	}
	/* A few tenants with slow registries do not keep out one without any. */
	if (own >= IMAGE_PULLS_TENANT_MAX || (n >= IMAGE_PULLS_MAX && own > 0) ||
	    n >= PULL_PULLS_MAX)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "too many images are being pulled: at most %d of a tenant, "
				      "%d in all",
				      IMAGE_PULLS_TENANT_MAX, IMAGE_PULLS_MAX);
	return 0;
}

/* A reference by digest is asked for by the digest. */
static int image_pull_send(struct image_pull *p, struct image_pulls *all, const char *user,
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

static int image_pull_send_with_credentials(struct image_pull *p, struct image_pulls *all,
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
	result = image_pull_send(p, all, user, password, spec->aws, e);
	seal_wipe(value, len);
	return result;
}

int image_pull_start(struct image_pull *p, const struct image_pull_spec *spec, struct err *e)
{
	struct image_pulls *all = image_pulls_of(p->core);

	if (pull_spec_read(p, spec, e) < 0 || image_pull_check_bounds(p, all, e) < 0)
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
	if (image_pull_send_with_credentials(p, all, spec, e) < 0)
		return -1;
	LIST_PUSH(&all->first, p);
	completion_begin(&p->done, core_loop(p->core), NULL);
	return 0;
}
