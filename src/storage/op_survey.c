/* op_survey.c - finds out the kind of an archive for an import: an image (OCI layout or
 * docker-archive) or a root file system, and where in it the layers are. For untrusted archives, in
 * a worker that can change no file but the two it was given.
 *
 * The result is written to the third descriptor: a struct storage_survey_result, then the bytes of
 * the configuration. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/oci/oci_config.h"
#include "lib/oci/oci_digest.h"
#include "lib/oci/oci_json.h"
#include "lib/oci/oci_manifest.h"
#include "lib/wire/storage_msg.h"
#include "storage/layer_make.h"
#include "storage/storage_room.h"
#include "storage/stream_in.h"
#include "storage/tar_member.h"

/* One archive and the facts found out about it. A result of kind ROOTFS has no layers. */
struct survey {
	int archive; /* borrowed: a file, read from its start */
	int spare;   /* borrowed: an empty file, for a compressed image without its compression */
	uint64_t bytes_max; /* of the archive without compression */
	/* The result. */
	struct storage_survey_result result;
	struct buf config; /* of the image, as it is in the archive. Owned */
};

#define SURVEY_NAME_MAX 256
#define SURVEY_FILES_MAX 4096 /* an archive with more is no image */

struct survey_file {
	char name[SURVEY_NAME_MAX]; /* without "./" in front */
	char link[SURVEY_NAME_MAX]; /* "": it is a file. Else the name of another */
	uint64_t offset, size;
};

/* The files of an archive in their order. Names of SURVEY_NAME_MAX bytes or more are left out. */
struct survey_index {
	struct survey_file *files; /* owned */
	size_t n;
	bool too_many;
	bool compressed; /* offsets are those of the uncompressed archive */
};

/* ---- the regular files of an archive, and their places */

#define LINKS_MAX 4

/* "./a" and "/a" are "a". */
static const char *survey_plain(const char *name)
{
	for (;;) {
		if (name[0] == '/')
			name++;
		else if (name[0] == '.' && name[1] == '/')
			name += 2;
		else
			return name;
	}
}

/* "x/../y" of a link in directory "x" is "y": as docker save writes links between layers. */
static void survey_link_target(const struct tar_head *h, char ret[SURVEY_NAME_MAX])
{
	const char *target = survey_plain(h->link);

	while (strncmp(target, "../", 3) == 0)
		target += 3;
	ret[0] = '\0';
	if (strlen(target) < SURVEY_NAME_MAX)
		memcpy(ret, target, strlen(target) + 1);
}

/* Too many files make the archive a root file system, and are no error. */
static int survey_add(struct survey_index *x, const struct tar_member *m, uint64_t offset,
		      struct err *e)
{
	const char *name = survey_plain(m->head.path);
	struct survey_file *f;

	if (x->n == SURVEY_FILES_MAX || strlen(name) >= SURVEY_NAME_MAX) {
		x->too_many = x->too_many || x->n == SURVEY_FILES_MAX;
		return 0;
	}
	if (x->files == NULL)
		x->files = malloc(SURVEY_FILES_MAX * sizeof(*x->files));
	if (x->files == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	f = &x->files[x->n++];
	memcpy(f->name, name, strlen(name) + 1);
	f->link[0] = '\0';
	if (m->head.type != TAR_HEAD_FILE)
		survey_link_target(&m->head, f->link);
	f->offset = offset;
	f->size = m->head.size;
	return 0;
}

/* An archive that fails at its first member has another format. */
static int survey_list(struct tar_reader *tar, struct survey_index *x, struct err *e)
{
	static struct tar_member m; /* large */
	bool is_first = true;
	int rc;

	for (; (rc = tar_reader_next(tar, &m, e)) == 0; is_first = false) {
		bool is_link = m.head.type == TAR_HEAD_SYMLINK || m.head.type == TAR_HEAD_HARDLINK;

		if (((m.head.type == TAR_HEAD_FILE && !m.is_sparse) || is_link) &&
		    survey_add(x, &m, tar_reader_at(tar), e) < 0)
			return -1;
	}
	if (rc < 0 && is_first && e->code == ERR_INVALID)
		return err_wrap(e, "not a tar archive, nor one in gzip or zstd");
	return rc < 0 ? -1 : 0;
}

/* List the files of an archive. */
static int survey_index_read(int fd, uint64_t bytes_max, struct survey_index *ret, struct err *e)
{
	struct stream_in *in;
	struct tar_reader *tar;
	int result = -1;

	memset(ret, 0, sizeof(*ret));
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "the archive");
	in = stream_in_fd(fd, bytes_max, false, e);
	if (in == NULL)
		return -1;
	tar = tar_reader_new(in, e);
	if (tar != NULL)
		result = survey_list(tar, ret, e);
	ret->compressed = stream_in_is_compressed(in);
	tar_reader_free(tar);
	stream_in_free(in);
	return result;
}

static void survey_index_release(struct survey_index *x)
{
	free(x->files);
	memset(x, 0, sizeof(*x));
}

/* The file of that name, links followed. NULL: there is none. */
static const struct survey_file *survey_index_find(const struct survey_index *x, const char *name)
{
	for (unsigned links = 0; links < LINKS_MAX; links++) {
		const struct survey_file *found = NULL;

		name = survey_plain(name);
		for (size_t i = 0; i < x->n; i++)
			if (strcmp(x->files[i].name, name) == 0)
				found = &x->files[i]; /* the last one counts */
		if (found == NULL || found->link[0] == '\0')
			return found;
		name = found->link;
	}
	return NULL;
}

/* ---- images in an archive
 *
 * An archive with the files oci-layout and index.json is an OCI layout. One with a manifest.json
 * that names a configuration and layers of the archive is a docker-archive. Any other is a root
 * file system. A layer is a part of the archive, so that UNPACK can read it in place. For that a
 * compressed image is written to the spare file without its compression. */

#define BUFFER (256U << 10)

struct surveying {
	struct survey *s;
	int fd; /* borrowed: where offsets are of */
	struct survey_index index;
};

/* ---- files of the archive */

static int survey_read_file(const struct surveying *v, const struct survey_file *f, struct buf *ret,
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

/* NULL: *e says why. The size must be the descriptor's. */
static const struct survey_file *survey_find_blob(const struct surveying *v,
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

/* Read a small blob and check its digest. The caller releases ret in any case. */
static int survey_read_blob(const struct surveying *v, const struct oci_descriptor *d,
			    struct buf *ret, struct err *e)
{
	const struct survey_file *f = survey_find_blob(v, d, e);

	buf_init(ret, 0);
	if (f == NULL || survey_read_file(v, f, ret, e) < 0)
		return -1;
	return oci_digest_check(&d->digest, ret->data, ret->len, "blob", e);
}

/* The digest of the stored layer. That of its content is checked when it is unpacked. */
static int survey_check_layer(const struct surveying *v, const struct survey_file *f,
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

static void survey_add_layer(struct survey *s, const struct survey_file *f)
{
	s->result.layers[s->result.nlayers++] =
		(struct storage_survey_layer){ .offset = f->offset, .size = f->size };
}

/* The configuration must be one for as many layers, and for this machine. */
static int survey_check_config(struct survey *s, struct err *e)
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
static int survey_find_manifest(const struct surveying *v, struct buf *doc,
				struct oci_descriptor *ret, struct err *e)
{
	enum oci_kind kind = OCI_KIND_INDEX;

	for (unsigned depth = 0; depth <= OCI_INDEX_DEPTH_MAX; depth++) {
		if (oci_index_choose(doc->data, doc->len, oci_platform_own(), NULL, ret, &kind, e) <
		    0)
			return -1;
		buf_release(doc);
		if (survey_read_blob(v, ret, doc, e) < 0)
			return -1;
		if (kind == OCI_KIND_MANIFEST)
			return 0;
	}
	return err_set(e, ERR_LIMIT, "index: more than %d, one in the other", OCI_INDEX_DEPTH_MAX);
}

/* All layers are found and hashed before any is unpacked. */
static int survey_take_manifest(struct surveying *v, const struct buf *doc, struct err *e)
{
	static struct oci_manifest m; /* large */

	if (oci_manifest_read(doc->data, doc->len, &m, e) < 0 ||
	    survey_read_blob(v, &m.config, &v->s->config, e) < 0)
		return -1;
	for (uint32_t i = 0; i < m.nlayers; i++) {
		const struct survey_file *f = survey_find_blob(v, &m.layers[i], e);

		if (f == NULL || survey_check_layer(v, f, &m.layers[i].digest, e) < 0)
			return err_wrap(e, "layer %u", i + 1);
		survey_add_layer(v->s, f);
	}
	return survey_check_config(v->s, e);
}

/* The image's digest is that of its manifest. */
static int survey_take_layout(struct surveying *v, const struct survey_file *index, struct err *e)
{
	struct oci_descriptor d = { 0 };
	struct buf doc;
	int result;

	v->s->result.kind = STORAGE_SURVEY_OCI;
	result = survey_read_file(v, index, &doc, e);
	if (result == 0)
		result = survey_find_manifest(v, &doc, &d, e);
	if (result == 0)
		result = survey_take_manifest(v, &doc, e);
	memcpy(v->s->result.digest, d.digest.sha256, sizeof(v->s->result.digest));
	buf_release(&doc);
	return result < 0 ? err_wrap(e, "OCI layout") : 0;
}

/* ---- a docker-archive */

/* Such archives have no digests to check. The image's digest is that of its configuration. */
static int survey_take_names(struct surveying *v, const struct oci_archive *a, struct err *e)
{
	const struct survey_file *config = survey_index_find(&v->index, a->config);

	if (config == NULL)
		return err_set(e, ERR_INVALID, "the archive has no %.100s", a->config);
	if (survey_read_file(v, config, &v->s->config, e) < 0)
		return -1;
	for (uint32_t i = 0; i < a->nlayers; i++) {
		const struct survey_file *f = survey_index_find(&v->index, a->layers[i]);

		if (f == NULL)
			return err_set(e, ERR_INVALID, "the archive has no %.100s", a->layers[i]);
		survey_add_layer(v->s, f);
	}
	sha256_of(v->s->config.data, v->s->config.len, v->s->result.digest);
	str_copy(v->s->result.tag, a->tag);
	return survey_check_config(v->s, e);
}

static int survey_take_docker(struct surveying *v, const struct survey_file *manifest,
			      struct err *e)
{
	static struct oci_archive a; /* large */
	struct buf doc;
	int result;

	v->s->result.kind = STORAGE_SURVEY_DOCKER;
	result = survey_read_file(v, manifest, &doc, e);
	if (result == 0)
		result = oci_archive_read(doc.data, doc.len, &a, e);
	if (result == 0)
		result = survey_take_names(v, &a, e);
	buf_release(&doc);
	return result < 0 ? err_wrap(e, "docker-archive") : 0;
}

/* ---- its kind */

/* An archive with more files than the index has room for is no image. */
static bool survey_is_image(const struct survey_index *x)
{
	if (x->too_many)
		return false;
	return survey_index_find(x, "manifest.json") != NULL ||
	       (survey_index_find(x, "oci-layout") != NULL &&
		survey_index_find(x, "index.json") != NULL);
}

/* Write the archive without its compression to the spare file, and list that. */
static int survey_expand(struct surveying *v, struct err *e)
{
	static uint8_t bytes[BUFFER];
	struct stream_in *in;
	ssize_t n;

	if (lseek(v->fd, 0, SEEK_SET) < 0)
		return err_sys(e, "the archive");
	in = stream_in_fd(v->fd, v->s->bytes_max, false, e);
	if (in == NULL)
		return -1;
	while ((n = stream_in_read(in, bytes, sizeof(bytes), e)) > 0) {
		if (storage_room_take(v->s->spare, (uint64_t)n, e) < 0 ||
		    io_write_all(v->s->spare, bytes, (size_t)n, e) < 0) {
			n = -1;
			break;
		}
	}
	stream_in_free(in);
	if (n < 0)
		return -1;
	v->s->result.in_spare = 1;
	v->fd = v->s->spare;
	survey_index_release(&v->index);
	return survey_index_read(v->fd, v->s->bytes_max, &v->index, e);
}

/* An archive with both forms, as docker save writes it, is read as an OCI layout. */
static int survey_classify(struct surveying *v, struct err *e)
{
	const struct survey_file *index = survey_index_find(&v->index, "index.json");

	if (survey_index_find(&v->index, "oci-layout") != NULL && index != NULL)
		return survey_take_layout(v, index, e);
	return survey_take_docker(v, survey_index_find(&v->index, "manifest.json"), e);
}

/* Read the archive and check every digest in it but those of unpacked layers. The platform is
 * that of this machine. To be released also after an error. */
static int survey_read(struct survey *s, struct err *e)
{
	struct surveying v = { .s = s, .fd = s->archive };
	int result;

	memset(&s->result, 0, sizeof(s->result));
	buf_init(&s->config, OCI_JSON_MAX + 1);
	result = survey_index_read(v.fd, s->bytes_max, &v.index, e);
	if (result == 0 && survey_is_image(&v.index)) {
		if (v.index.compressed)
			result = survey_expand(&v, e);
		if (result == 0)
			result = survey_classify(&v, e);
	} else if (result == 0) {
		s->result.kind = STORAGE_SURVEY_ROOTFS;
	}
	survey_index_release(&v.index);
	return result;
}

static void survey_release(struct survey *s)
{
	buf_release(&s->config);
}

enum { ARCHIVE, SPARE, RESULT };

/* ---- the operation */

static int survey_work(void *arg, int top, const int *lower, struct storage_reply *reply,
		       struct err *e)
{
	const struct storage_run *run = arg;
	struct survey s = { .archive = run->fds[ARCHIVE],
			    .spare = run->fds[SPARE],
			    .bytes_max = run->r->survey.bytes_max };
	int result;

	storage_room_keep(run->r->survey.reserve_percent);
	result = survey_read(&s, e);

	if (result == 0)
		result = io_write_all(run->fds[RESULT], &s.result, sizeof(s.result), e);
	if (result == 0)
		result = io_write_all(run->fds[RESULT], s.config.data, s.config.len, e);
	survey_release(&s);
	return result;
}

int op_survey(struct storage_run *run, struct err *e)
{
	const struct layer_make m = { .work = survey_work, .arg = run };

	return layer_make_nothing(run, &m, e);
}
