/* spool.c - see spool.h. */
#include "daemon/disk/spool.h"

#include <fcntl.h>
#include <string.h>

#include "lib/base/io.h"

#define SPOOL_MS 14400000 /* of a whole upload, slow clients included */

static void on_room(void *arg)
{
	struct spool *s = arg;

	s->on_room(s);
}

static void on_done(struct completion *done, const struct err *e)
{
	struct spool *s = done->arg;
	struct err none;

	storage_feed_close(&s->feed);
	if (e == NULL && !s->given && s->job.fd < 0) {
		(void)err_set(&none, ERR_SYSTEM, "cordon-storage sent no descriptor");
		e = &none;
	}
	if (e == NULL) {
		s->fd = s->job.fd;
		s->job.fd = -1;
		s->bytes = s->job.reply.bytes;
		memcpy(s->sha256, s->job.reply.sha256, sizeof(s->sha256));
	}
	s->on_end(s, e);
}

/* A copy of the file, if there is one. */
static int copy_file(const struct spool_spec *spec, int *ret, struct err *e)
{
	if (spec->file < 0)
		return 0;
	*ret = fcntl(spec->file, F_DUPFD_CLOEXEC, 3);
	return *ret < 0 ? err_sys(e, "the file of an upload") : 0;
}

int spool_start(struct spool *s, struct storage_link *storage, const struct spool_spec *spec,
		struct err *e)
{
	struct storage_spool r = { .head = { .op = STORAGE_SPOOL, .deadline_ms = SPOOL_MS },
				   .bytes_max = spec->bytes_max,
				   .reserve_percent = spec->reserve_percent };
	int fds[2] = { -1, -1 };

	s->fd = -1;
	s->given = spec->file >= 0;
	if (storage_feed_open(&s->feed, storage->loop, on_room, s, &fds[0], e) < 0)
		return -1;
	if (copy_file(spec, &fds[1], e) < 0) {
		storage_feed_close(&s->feed);
		io_close_all(fds, 1);
		return -1;
	}
	if (s->given)
		r.flags = STORAGE_SPOOL_FILE | STORAGE_SPOOL_SHA256;
	s->storage = storage;
	s->job.done = (struct completion){ .on_done = on_done, .arg = s };
	s->job.tenant = spec->tenant;
	storage_link_ask(storage, &s->job, &r, sizeof(r), fds, s->given ? 2 : 1);
	return 0;
}

size_t spool_put(struct spool *s, const uint8_t *data, size_t len)
{
	return storage_feed_put(&s->feed, data, len);
}

bool spool_end(struct spool *s)
{
	return storage_feed_end(&s->feed);
}

void spool_cancel(struct spool *s)
{
	if (s->storage == NULL)
		return;
	storage_feed_close(&s->feed);
	storage_link_cancel(s->storage, &s->job);
	io_close_all(&s->job.fd, 1);
	io_close_all(&s->fd, 1);
	s->storage = NULL;
}
