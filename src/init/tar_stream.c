#include "tar_stream.h"

#include <string.h>

#include "builtin.h"
#include "builtin_io.h"
#include "io.h"

#define EXTENSIONS_MAX 8	/* in front of one entry */
#define TRAILER_MAX (16U << 20) /* behind the end marker */

/* From extension headers, for the next entry. */
struct pending {
	char path[TAR_HEAD_PATH_MAX], link[TAR_HEAD_PATH_MAX];
	bool has_size;
	uint64_t size;
};

static char body[TAR_HEAD_PAX_MAX + TAR_HEAD_BLOCK];

static int read_block(uint8_t *ret, struct err *e)
{
	int rc = builtin_io_read_exactly(ret, TAR_HEAD_BLOCK, e);

	return rc > 0 ? err_set(e, ERR_INVALID, "tar: ends without its end marker") : rc;
}

static int read_bytes(void *ret, size_t len, struct err *e)
{
	int rc = builtin_io_read_exactly(ret, len, e);

	return rc > 0 ? err_set(e, ERR_INVALID, "tar: ends in the middle of an entry") : rc;
}

static int read_extension(const struct tar_head *h, struct err *e)
{
	if (h->size > TAR_HEAD_PAX_MAX)
		return err_set(e, ERR_LIMIT, "tar: extension of over 64 KiB");
	return read_bytes(body, (size_t)h->size + tar_head_padding(h->size), e);
}

/* GNU's long name: the whole body, which may end in NUL. */
static int take_long(const struct tar_head *h, char *ret, struct err *e)
{
	const char *end = memchr(body, '\0', (size_t)h->size);
	size_t n = end == NULL ? (size_t)h->size : (size_t)(end - body);

	if (n >= TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	memcpy(ret, body, n);
	ret[n] = '\0';
	return 0;
}

static int take_pax(const struct tar_head *h, struct pending *p, struct err *e)
{
	struct tar_head_pax pax;

	if (tar_head_pax_read(body, (size_t)h->size, &pax, e) < 0)
		return -1;
	if (pax.path != NULL)
		memcpy(p->path, pax.path, strlen(pax.path) + 1);
	if (pax.link != NULL)
		memcpy(p->link, pax.link, strlen(pax.link) + 1);
	if (pax.has_size) {
		p->has_size = true;
		p->size = pax.size;
	}
	return 0;
}

/* Returns 1 if this was an extension, 0 if it is an entry. */
static int take_extension(const struct tar_head *h, struct pending *p, struct err *e)
{
	int rc;

	if (strchr("LKxgX", h->type) == NULL || h->type == '\0')
		return 0;
	if (read_extension(h, e) < 0)
		return -1;
	if (h->type == TAR_HEAD_LONG_NAME)
		rc = take_long(h, p->path, e);
	else if (h->type == TAR_HEAD_LONG_LINK)
		rc = take_long(h, p->link, e);
	else if (h->type == TAR_HEAD_PAX_GLOBAL)
		rc = 0; /* comments and times */
	else
		rc = take_pax(h, p, e);
	return rc < 0 ? -1 : 1;
}

static void apply(const struct pending *p, struct tar_head *h)
{
	if (p->path[0] != '\0')
		memcpy(h->path, p->path, strlen(p->path) + 1);
	if (p->link[0] != '\0')
		memcpy(h->link, p->link, strlen(p->link) + 1);
	if (p->has_size)
		h->size = p->size;
	/* Some programs write a size for these types, but no content. */
	if (h->type == TAR_HEAD_DIR || h->type == TAR_HEAD_SYMLINK || h->type == TAR_HEAD_CHAR ||
	    h->type == TAR_HEAD_BLOCK_DEVICE || h->type == TAR_HEAD_FIFO)
		h->size = 0;
}

static int drain(struct err *e)
{
	uint64_t total = 0;
	ssize_t n;

	while ((n = builtin_io_read(body, sizeof(body), e)) > 0) {
		total += (uint64_t)n;
		if (total > TRAILER_MAX)
			return err_set(e, ERR_LIMIT, "tar: too much behind the end marker");
	}
	return n < 0 ? -1 : 1;
}

int tar_stream_next(struct tar_head *ret, struct err *e)
{
	static struct pending p;
	uint8_t block[TAR_HEAD_BLOCK];
	int rc;

	p.path[0] = p.link[0] = '\0';
	p.has_size = false;
	for (int i = 0; i <= EXTENSIONS_MAX; i++) {
		if (read_block(block, e) < 0)
			return -1;
		rc = tar_head_read(block, ret, e);
		if (rc < 0)
			return -1;
		if (rc == 1)
			return drain(e);
		rc = take_extension(ret, &p, e);
		if (rc < 0)
			return -1;
		if (rc == 0) {
			apply(&p, ret);
			return 0;
		}
	}
	return err_set(e, ERR_LIMIT, "tar: too many extensions for one entry");
}

int tar_stream_body(int fd, const struct tar_head *h, struct err *e)
{
	for (uint64_t left = h->size; left > 0;) {
		size_t n = left < BUILTIN_IO_BUFFER ? (size_t)left : BUILTIN_IO_BUFFER;

		if (read_bytes(body, n, e) < 0)
			return -1;
		if (fd >= 0 && io_write_all(fd, body, n, e) < 0)
			return builtin_io_fail(e, "tar: write", h->path);
		left -= n;
	}
	return read_bytes(body, tar_head_padding(h->size), e);
}

int tar_stream_clean(char *path, struct err *e)
{
	const char *from = path;
	char *to = path;
	unsigned parts = 0;

	while (*from != '\0') {
		size_t n = strcspn(from, "/");

		if (n == 2 && memcmp(from, "..", 2) == 0)
			return err_set(e, ERR_INVALID, "tar: a name with '..' in it");
		if (n > 0 && !(n == 1 && *from == '.')) {
			if (++parts > BUILTIN_DEPTH_MAX)
				return err_set(e, ERR_LIMIT, "tar: over %d levels deep",
					       BUILTIN_DEPTH_MAX);
			if (to != path)
				*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n + (from[n] == '/');
	}
	*to = '\0';
	return 0;
}
