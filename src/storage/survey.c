/* survey.c - theory of operation
 *
 * An archive with the files oci-layout and index.json is an OCI layout; one with a manifest.json
 * that names a configuration and layers of the archive is a docker-archive; any other is a root
 * file system. A layer is a part of the archive, so that UNPACK can read it in place. For that a
 * compressed image is written to the spare file without its compression. */
#include "survey.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "oci_archive.h"
#include "oci_config.h"
#include "oci_json.h"
#include "storage_room.h"
#include "stream_in.h"
#include "survey_index.h"

#define BUFFER (256U << 10)

struct surveying {
	struct survey *s;
	int fd; /* borrowed: where offsets are of */
	struct survey_index index;
};

/* ---- files of the archive */

static int read_file(const struct surveying *v, const struct survey_file *f, struct buf *ret,
		     struct err *e)
{
	uint8_t *to;

	buf_init(ret, OCI_JSON_MAX + 1);
	if (f->size > OCI_JSON_MAX)
		return err_set(e, ERR_INVALID, "%.100s is larger than %u bytes", f->name,
			       OCI_JSON_MAX);
	to = buf_reserve(ret, (size_t)f->size + 1, e);
	if (to == NULL)
		return -1;
	for (uint64_t got = 0; got < f->size;) {
		ssize_t n =
			pread(v->fd, to + got, (size_t)(f->size - got), (off_t)(f->offset + got));

		if (n <= 0)
			return err_set(e, ERR_INVALID, "%.100s cannot be read", f->name);
		got += (uint64_t)n;
	}
	buf_commit(ret, (size_t)f->size);
	return 0;
}

static const struct survey_file *find_blob(const struct surveying *v,
					   const struct oci_descriptor *d, struct err *e)
{
	char name[SURVEY_NAME_MAX], text[OCI_DIGEST_TEXT];
	const struct survey_file *f;

	oci_digest_text(&d->digest, text);
	(void)snprintf(name, sizeof(name), "blobs/sha256/%s", strchr(text, ':') + 1);
	f = survey_index_find(&v->index, name);
	if (f == NULL)
		(void)err_set(e, ERR_INVALID, "the archive has no blob %s", text);
	else if (f->size != d->size)
		(void)err_set(e, ERR_INVALID, "blob %s has %llu bytes, not %llu", text,
			      (unsigned long long)f->size, (unsigned long long)d->size);
	else
		return f;
	return NULL;
}

static int read_blob(const struct surveying *v, const struct oci_descriptor *d, struct buf *ret,
		     struct err *e)
{
	const struct survey_file *f = find_blob(v, d, e);

	buf_init(ret, 0);
	if (f == NULL || read_file(v, f, ret, e) < 0)
		return -1;
	return oci_digest_check(&d->digest, ret->data, ret->len, "blob", e);
}

/* Of a layer as it is stored; that of its content is checked when it is unpacked. */
static int check_layer(const struct surveying *v, const struct survey_file *f,
		       const struct oci_digest *want, struct err *e)
{
	static uint8_t bytes[BUFFER];
	struct oci_digest got = { 0 };
	struct sha256 sum;

	sha256_init(&sum);
	for (uint64_t at = 0; at < f->size;) {
		uint64_t left = f->size - at;
		ssize_t n = pread(v->fd, bytes, left < BUFFER ? (size_t)left : BUFFER,
				  (off_t)(f->offset + at));

		if (n <= 0)
			return err_set(e, ERR_INVALID, "%.100s cannot be read", f->name);
		sha256_add(&sum, bytes, (size_t)n);
		at += (uint64_t)n;
	}
	sha256_end(&sum, got.sha256);
	if (!oci_digest_same(&got, want))
		return err_set(e, ERR_INVALID, "%.100s does not have its digest", f->name);
	return 0;
}

static void add_layer(struct survey *s, const struct survey_file *f)
{
	s->result.layers[s->result.nlayers++] =
		(struct storage_survey_layer){ .offset = f->offset, .size = f->size };
}

/* The configuration must be one for as many layers, and for this machine. */
static int check_config(struct survey *s, struct err *e)
{
	struct oci_config c;
	int result = oci_config_read(s->config.data, s->config.len, oci_platform_own(), &c, e);

	if (result == 0 && c.nlayers != s->result.nlayers)
		result = err_set(e, ERR_INVALID, "the configuration has %u layers, the manifest %u",
				 c.nlayers, s->result.nlayers);
	oci_config_release(&c);
	s->result.config_len = (uint32_t)s->config.len;
	return result;
}

/* ---- an OCI layout */

/* From an index to the manifest for this machine, through at most OCI_INDEX_DEPTH_MAX of them. */
static int find_manifest(const struct surveying *v, struct buf *doc, struct oci_descriptor *ret,
			 struct err *e)
{
	enum oci_kind kind = OCI_KIND_INDEX;

	for (unsigned depth = 0; depth <= OCI_INDEX_DEPTH_MAX; depth++) {
		if (oci_index_choose(doc->data, doc->len, oci_platform_own(), NULL, ret, &kind, e) <
		    0)
			return -1;
		buf_release(doc);
		if (read_blob(v, ret, doc, e) < 0)
			return -1;
		if (kind == OCI_KIND_MANIFEST)
			return 0;
	}
	return err_set(e, ERR_LIMIT, "index: more than %d, one in the other", OCI_INDEX_DEPTH_MAX);
}

static int take_manifest(struct surveying *v, const struct buf *doc, struct err *e)
{
	static struct oci_manifest m; /* large */

	if (oci_manifest_read(doc->data, doc->len, &m, e) < 0 ||
	    read_blob(v, &m.config, &v->s->config, e) < 0)
		return -1;
	for (uint32_t i = 0; i < m.nlayers; i++) {
		const struct survey_file *f = find_blob(v, &m.layers[i], e);

		if (f == NULL || check_layer(v, f, &m.layers[i].digest, e) < 0)
			return err_wrap(e, "layer %u", i + 1);
		add_layer(v->s, f);
	}
	return check_config(v->s, e);
}

static int take_layout(struct surveying *v, const struct survey_file *index, struct err *e)
{
	struct oci_descriptor d = { 0 };
	struct buf doc;
	int result;

	v->s->result.kind = STORAGE_SURVEY_OCI;
	result = read_file(v, index, &doc, e);
	if (result == 0)
		result = find_manifest(v, &doc, &d, e);
	if (result == 0)
		result = take_manifest(v, &doc, e);
	memcpy(v->s->result.digest, d.digest.sha256, sizeof(v->s->result.digest));
	buf_release(&doc);
	return result < 0 ? err_wrap(e, "OCI layout") : 0;
}

/* ---- a docker-archive */

static int take_names(struct surveying *v, const struct oci_archive *a, struct err *e)
{
	const struct survey_file *config = survey_index_find(&v->index, a->config);

	if (config == NULL)
		return err_set(e, ERR_INVALID, "the archive has no %.100s", a->config);
	if (read_file(v, config, &v->s->config, e) < 0)
		return -1;
	for (uint32_t i = 0; i < a->nlayers; i++) {
		const struct survey_file *f = survey_index_find(&v->index, a->layers[i]);

		if (f == NULL)
			return err_set(e, ERR_INVALID, "the archive has no %.100s", a->layers[i]);
		add_layer(v->s, f);
	}
	sha256_of(v->s->config.data, v->s->config.len, v->s->result.digest);
	(void)snprintf(v->s->result.tag, sizeof(v->s->result.tag), "%s", a->tag);
	return check_config(v->s, e);
}

static int take_docker(struct surveying *v, const struct survey_file *manifest, struct err *e)
{
	static struct oci_archive a; /* large */
	struct buf doc;
	int result;

	v->s->result.kind = STORAGE_SURVEY_DOCKER;
	result = read_file(v, manifest, &doc, e);
	if (result == 0)
		result = oci_archive_read(doc.data, doc.len, &a, e);
	if (result == 0)
		result = take_names(v, &a, e);
	buf_release(&doc);
	return result < 0 ? err_wrap(e, "docker-archive") : 0;
}

/* ---- what it is */

static bool is_image(const struct survey_index *x)
{
	if (x->too_many)
		return false;
	return survey_index_find(x, "manifest.json") != NULL ||
	       (survey_index_find(x, "oci-layout") != NULL &&
		survey_index_find(x, "index.json") != NULL);
}

/* Writes the archive without its compression to the spare file, and lists that. */
static int expand(struct surveying *v, struct err *e)
{
	static uint8_t bytes[BUFFER];
	uint64_t left = 0; /* until the reserve is looked at */
	struct stream_in *in;
	ssize_t n;

	if (lseek(v->fd, 0, SEEK_SET) < 0)
		return err_sys(e, "the archive");
	in = stream_in_fd(v->fd, v->s->bytes_max, false, e);
	if (in == NULL)
		return -1;
	while ((n = stream_in_read(in, bytes, sizeof(bytes), e)) > 0) {
		if ((left < (uint64_t)n &&
		     storage_room_check(v->s->spare, v->s->reserve_percent, e) < 0) ||
		    io_write_all(v->s->spare, bytes, (size_t)n, e) < 0) {
			n = -1;
			break;
		}
		left = (left < (uint64_t)n ? STORAGE_ROOM_STEP : left) - (uint64_t)n;
	}
	stream_in_free(in);
	if (n < 0)
		return -1;
	v->s->result.in_spare = 1;
	v->fd = v->s->spare;
	survey_index_release(&v->index);
	return survey_index_read(v->fd, v->s->bytes_max, &v->index, e);
}

static int classify(struct surveying *v, struct err *e)
{
	const struct survey_file *index = survey_index_find(&v->index, "index.json");

	if (survey_index_find(&v->index, "oci-layout") != NULL && index != NULL)
		return take_layout(v, index, e);
	return take_docker(v, survey_index_find(&v->index, "manifest.json"), e);
}

int survey_read(struct survey *s, struct err *e)
{
	struct surveying v = { .s = s, .fd = s->archive };
	int result;

	memset(&s->result, 0, sizeof(s->result));
	buf_init(&s->config, OCI_JSON_MAX + 1);
	result = survey_index_read(v.fd, s->bytes_max, &v.index, e);
	if (result == 0 && is_image(&v.index)) {
		if (v.index.compressed)
			result = expand(&v, e);
		if (result == 0)
			result = classify(&v, e);
	} else if (result == 0) {
		s->result.kind = STORAGE_SURVEY_ROOTFS;
	}
	survey_index_release(&v.index);
	return result;
}

void survey_release(struct survey *s)
{
	buf_release(&s->config);
}
