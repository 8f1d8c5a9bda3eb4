/* storage_feed.c - see storage_feed.h. */
#include "daemon/disk/storage_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/wire/file_msg.h"

void storage_feed_close(struct storage_feed *f)
{
	if (f->loop == NULL || f->fd < 0)
		return;
	loop_remove(f->loop, &f->watch);
	io_close_all(&f->fd, 1);
}

/* How many bytes were written. 0: no room now. */
static size_t storage_feed_write(struct storage_feed *f, const uint8_t *data, size_t len)
{
	ssize_t n;

	if (f->fd < 0)
		return len;
	n = write(f->fd, data, len);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		storage_feed_close(f);
		return len;
	}
	if (n < (ssize_t)len)
		loop_modify(f->loop, &f->watch, EPOLLOUT);
	return n < 0 ? 0 : (size_t)n;
}

static bool put_head(struct storage_feed *f)
{
	while (f->head_left > 0) {
		size_t n = storage_feed_write(f, f->head + FILE_MSG_CHUNK_HEAD - f->head_left,
					      f->head_left);

		if (n == 0)
			return false;
		f->head_left -= n;
	}
	return true;
}

static void begin_chunk(struct storage_feed *f, size_t len)
{
	f->chunk_left = len < FILE_MSG_CHUNK_MAX ? len : FILE_MSG_CHUNK_MAX;
	file_msg_chunk_write(f->head, (uint32_t)f->chunk_left);
	f->head_left = FILE_MSG_CHUNK_HEAD;
}

size_t storage_feed_put(struct storage_feed *f, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t part, n;

		if (f->fd < 0)
			return len;
		if (f->chunk_left == 0)
			begin_chunk(f, len - done);
		if (!put_head(f))
			return done;
		part = len - done < f->chunk_left ? len - done : (size_t)f->chunk_left;
		n = storage_feed_write(f, data + done, part);
		if (n == 0)
			return done;
		done += n;
		f->chunk_left -= n < f->chunk_left ? n : f->chunk_left;
	}
	return done;
}

bool storage_feed_end(struct storage_feed *f)
{
	if (f->fd < 0)
		return true;
	if (f->head_left == 0)
		begin_chunk(f, 0);
	if (!put_head(f))
		return false;
	storage_feed_close(f);
	return true;
}

static void on_writable(struct loop_fd *w, uint32_t events)
{
	struct storage_feed *f = w->arg;

	loop_modify(f->loop, w, 0);
	if ((events & (EPOLLERR | EPOLLHUP)) != 0)
		storage_feed_close(f);
	f->on_room(f->arg);
}

/* Our end does not block. The other end does. */
int storage_feed_open(struct storage_feed *f, struct loop *l, void (*on_room)(void *arg), void *arg,
		      int *ret_its, struct err *e)
{
	int ends[2];

	*f = (struct storage_feed){ .loop = l, .fd = -1, .on_room = on_room, .arg = arg };
	f->watch = (struct loop_fd){ .fd = -1, .on_ready = on_writable, .arg = f };
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD its = ends[0], ours = ends[1];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "pipe");
	if (loop_add(l, &f->watch, ours, 0, e) < 0)
		return -1;
	f->fd = TAKE_FD(ours);
	*ret_its = TAKE_FD(its);
	return 0;
}
