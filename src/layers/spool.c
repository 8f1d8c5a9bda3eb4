/* spool.c - see spool.h. */
#include "spool.h"

#include "io.h"

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
	if (e == NULL && s->job.fd < 0) {
		(void)err_set(&none, ERR_SYSTEM, "cordon-storage sent no descriptor");
		e = &none;
	}
	if (e == NULL) {
		s->fd = s->job.fd;
		s->job.fd = -1;
		s->bytes = s->job.reply.bytes;
	}
	s->on_end(s, e);
}

int spool_start(struct spool *s, struct storage_link *storage, uint64_t bytes_max,
		uint32_t reserve_percent, struct err *e)
{
	const struct storage_spool r = { .head = { .op = STORAGE_SPOOL, .deadline_ms = SPOOL_MS },
					 .bytes_max = bytes_max,
					 .reserve_percent = reserve_percent };
	int its;

	s->fd = -1;
	if (storage_feed_open(&s->feed, storage->loop, on_room, s, &its, e) < 0)
		return -1;
	s->storage = storage;
	s->job.done = (struct completion){ .on_done = on_done, .arg = s };
	storage_link_ask(storage, &s->job, &r, sizeof(r), &its, 1);
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
