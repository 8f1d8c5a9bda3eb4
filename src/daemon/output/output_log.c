/* output_log.c - see output_log.h. */
#include "daemon/output/output_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "daemon/output/output_record.h"
#include "daemon/output/pipe_io.h"
#include "lib/base/own.h"

#define MOVE_MAX (1U << 20)

void output_log_init(struct output_log *l, int dir_fd, const char *execution_id, uint64_t limit)
{
	*l = (struct output_log){ .dir_fd = dir_fd,
				  .fd = -1,
				  .limit = limit,
				  .why = "",
				  .room = UINT64_MAX,
				  .asked = UINT64_MAX };
	(void)snprintf(l->name, sizeof(l->name), "%s.log", execution_id);
}

void output_log_release(struct output_log *l)
{
	fd_close(l->fd);
	l->fd = -1;
}

/* The reason in the mark of a cut at l->size, as one of the constants. */
static const char *read_why(const struct output_log *l)
{
	static const char *const words[] = { OUTPUT_BY_DISK, OUTPUT_BY_SESSION, OUTPUT_BY_END };
	char text[8] = "";

	IGNORED(pread(l->fd, text, sizeof(text) - 1, (off_t)(l->size + OUTPUT_RECORD_HEAD)),
		"then it was the limit");
	for (size_t i = 0; i < COUNT(words); i++)
		if (strcmp(text, words[i]) == 0)
			return words[i];
	return OUTPUT_BY_LIMIT;
}

static void output_log_count(struct output_log *l, const struct output_record *r)
{
	if (r->stream == OUTPUT_CUT) {
		l->cut = true;
		l->why = read_why(l);
		return;
	}
	if (output_is_note((enum output_stream)r->stream)) {
		l->noted += r->len;
		l->notes++;
		return;
	}
	l->notes = 0;
	l->written[output_index((enum output_stream)r->stream)] = r->offset + r->len;
	l->kept += r->len;
}

/* The daemon died between writing a head and moving all its bytes: the head has too large a length.
 * The missing bytes are still in the pipe. */
static int output_log_repair(struct output_log *l, struct output_record *r, uint64_t there,
			     struct err *e)
{
	if (there == 0) {
		if (ftruncate(l->fd, (off_t)l->size) < 0)
			return err_sys(e, "repair %s", l->name);
		return 0;
	}
	r->len = (uint32_t)there;
	if (output_record_write(l->fd, l->size, r) < 0)
		return err_sys(e, "repair %s", l->name);
	output_log_count(l, r);
	l->size += OUTPUT_RECORD_HEAD + r->len;
	return 0;
}

int output_log_open(int dir_fd, const char *name, int flags)
{
	OWN_FD fd = openat(dir_fd, name, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return TAKE_FD(fd);
}

/* The file cannot be read: its content stays, and nothing is appended, since its end is not
 * known. */
static int give_up(struct output_log *l, const struct stat *st, struct err *e)
{
	int why = errno;

	l->cut = true;
	l->why = OUTPUT_BY_DISK;
	if (st != NULL && (uint64_t)st->st_size > l->size)
		l->size = (uint64_t)st->st_size;
	errno = why;
	return err_sys(e, "read %s", l->name);
}

int output_log_reopen(struct output_log *l, struct err *e)
{
	struct output_heads heads;
	struct output_record r;
	struct stat st;
	int got;

	l->fd = output_log_open(l->dir_fd, l->name, O_RDWR);
	if (l->fd < 0 && errno == ENOENT)
		return 0;
	if (l->fd < 0 || fstat(l->fd, &st) < 0)
		return give_up(l, NULL, e);
	output_heads_begin(&heads, l->fd);
	while ((got = output_heads_read(&heads, l->size, &r)) > 0) {
		uint64_t there = (uint64_t)st.st_size - l->size - OUTPUT_RECORD_HEAD;

		if (r.len > there)
			return output_log_repair(l, &r, there, e);
		output_log_count(l, &r);
		l->size += OUTPUT_RECORD_HEAD + r.len;
	}
	if (got < 0)
		return give_up(l, &st, e);
	if (output_record_is_open(&r) &&
	    r.len <= (uint64_t)st.st_size - l->size - OUTPUT_RECORD_HEAD) {
		l->open.stream = (enum output_stream)r.stream;
		l->open.len = r.len;
		l->open.time_ms = r.time_ms;
		return 0;
	}
	if (ftruncate(l->fd, (off_t)l->size) < 0) /* half a head, or none */
		return err_sys(e, "repair %s", l->name);
	return 0;
}

static int open_log(struct output_log *l)
{
	if (l->fd < 0)
		l->fd = output_log_open(l->dir_fd, l->name, O_RDWR | O_CREAT);
	return l->fd < 0 ? -1 : 0;
}

static void mark_cut(struct output_log *l, const char *why, uint64_t now_ms)
{
	struct output_record r = { .len = (uint32_t)strlen(why),
				   .stream = OUTPUT_CUT,
				   .time_ms = now_ms };

	l->cut = true;
	l->why = why;
	if (open_log(l) < 0)
		return;
	/* The mark may not fit on a full disk. The row in the store has the cut, too. */
	if (output_record_write(l->fd, l->size, &r) == 0 &&
	    pwrite(l->fd, why, r.len, (off_t)(l->size + OUTPUT_RECORD_HEAD)) == (ssize_t)r.len)
		l->size += OUTPUT_RECORD_HEAD + r.len;
	else
		IGNORED(ftruncate(l->fd, (off_t)l->size), "what is after size is never read");
}

/* Write the head again with the number of bytes that came. False: that failed, and the record is
 * gone. */
static bool output_log_shorten(struct output_log *l, struct output_record *r, size_t came)
{
	r->len = (uint32_t)came;
	if (came > 0 && output_record_write(l->fd, l->size, r) == 0)
		return true;
	IGNORED(ftruncate(l->fd, (off_t)l->size), "what is after size is never read");
	return false;
}

/* Write a head for n bytes, which wait in the pipe without another reader, and move them after it.
 * Return how many were moved. */
static size_t output_log_keep(struct output_log *l, enum output_stream stream, int pipe_fd,
			      size_t n, uint64_t now_ms)
{
	struct output_record r = { .len = (uint32_t)n,
				   .stream = stream,
				   .time_ms = now_ms,
				   .offset = l->written[output_index(stream)] };
	off_t at = (off_t)(l->size + OUTPUT_RECORD_HEAD);
	size_t done = 0;

	if (open_log(l) < 0 || output_record_write(l->fd, l->size, &r) < 0)
		return 0;
	l->notes = 0;
	while (done < n) {
		ssize_t moved = splice(pipe_fd, NULL, l->fd, &at, n - done, SPLICE_F_NONBLOCK);

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved <= 0)
			break;
		done += (size_t)moved;
	}
	l->written[output_index(stream)] += done;
	if (done < n && !output_log_shorten(l, &r, done))
		return done;
	l->size += OUTPUT_RECORD_HEAD + done;
	l->kept += done;
	return done;
}

/* How many bytes more are kept by the execution's own limit. */
static uint64_t own_room(const struct output_log *l)
{
	return l->limit > l->kept ? l->limit - l->kept : 0;
}

uint64_t output_log_need_for(const struct output_log *l, uint64_t bytes)
{
	uint64_t own = own_room(l);

	if (l->cut || own == 0 || bytes == 0)
		return 0;
	return OUTPUT_RECORD_HEAD + (bytes < own ? bytes : own);
}

uint64_t output_log_need(const struct output_log *l, int pipe_fd)
{
	int there = 0;

	if (l->cut || ioctl(pipe_fd, FIONREAD, &there) < 0 || there <= 0)
		return 0;
	return output_log_need_for(l, (unsigned)there < MOVE_MAX ? (unsigned)there : MOVE_MAX);
}

/* How many of the bytes in the pipe this move takes. Bytes that came after room was made wait for
 * the next move. */
static size_t in_turn(const struct output_log *l, int there)
{
	size_t want = there > (int)MOVE_MAX ? MOVE_MAX : (size_t)there;
	uint64_t asked = l->asked > OUTPUT_RECORD_HEAD ? l->asked - OUTPUT_RECORD_HEAD : 0;

	if (l->cut || own_room(l) == 0) /* nothing of it is kept */
		return want;
	return asked < want ? (size_t)asked : want;
}

/* How many of want bytes may be kept. If not all, *ret_why is the reason. */
static size_t find_room(const struct output_log *l, size_t want, const char **ret_why)
{
	uint64_t own = own_room(l);
	uint64_t shared = l->room > OUTPUT_RECORD_HEAD ? l->room - OUTPUT_RECORD_HEAD : 0;
	uint64_t least = own < shared ? own : shared;

	*ret_why = shared < own ? OUTPUT_BY_SESSION : OUTPUT_BY_LIMIT;
	return least < want ? (size_t)least : want;
}

size_t output_log_turn(const struct output_log *l, int there)
{
	size_t want = there <= 0 ? 0 : in_turn(l, there);
	const char *why;

	if (!l->cut && l->wait_for_room && find_room(l, want, &why) < want &&
	    strcmp(why, OUTPUT_BY_SESSION) == 0)
		return 0;
	return want;
}

static void drop_all(struct output_log *l, enum output_stream stream, int pipe_fd, size_t n)
{
	while (n > 0) {
		ssize_t dropped = pipe_io_drop(pipe_fd, n);

		if (dropped <= 0)
			return; /* another reader took them */
		l->written[output_index(stream)] += (uint64_t)dropped;
		n -= (size_t)dropped;
	}
}

/* False: neither the log nor the pipe was changed. */
static bool output_log_put_or_refuse(struct output_log *l, enum output_stream stream, int pipe_fd,
				     const uint8_t *bytes, size_t n, uint64_t now_ms)
{
	struct output_record r = { .len = (uint32_t)n,
				   .stream = stream | OUTPUT_RECORD_OPEN,
				   .time_ms = now_ms,
				   .offset = l->written[output_index(stream)] };

	if (open_log(l) < 0 || output_record_write(l->fd, l->size, &r) < 0 ||
	    pwrite(l->fd, bytes, n, (off_t)(l->size + OUTPUT_RECORD_HEAD)) != (ssize_t)n) {
		if (l->fd >= 0)
			IGNORED(ftruncate(l->fd, (off_t)l->size),
				"what is after size is never read");
		return false;
	}
	l->notes = 0;
	drop_all(l, stream, pipe_fd, n);
	l->written[output_index(stream)] = r.offset + n;
	r.stream = stream;
	if (output_record_write(l->fd, l->size, &r) < 0)
		return true; /* the disk fails: the next record overwrites this one */
	l->size += OUTPUT_RECORD_HEAD + n;
	l->kept += n;
	return true;
}

void output_log_put(struct output_log *l, enum output_stream stream, int pipe_fd,
		    const uint8_t *bytes, size_t n, uint64_t now_ms)
{
	const char *why;
	size_t room;

	if (n == 0)
		return;
	if (!l->cut) {
		room = find_room(l, n, &why);
		if (room > 0 &&
		    !output_log_put_or_refuse(l, stream, pipe_fd, bytes, room, now_ms)) {
			room = 0;
			why = OUTPUT_BY_DISK;
		}
		if (room == n)
			return;
		mark_cut(l, why, now_ms);
		n -= room;
	}
	drop_all(l, stream, pipe_fd, n);
}

/* False: the log was not changed. */
static bool output_log_append_or_refuse(struct output_log *l, enum output_stream stream,
					const uint8_t *bytes, size_t n, uint64_t now_ms)
{
	bool note = output_is_note(stream);
	struct output_record r = { .len = (uint32_t)n,
				   .stream = stream,
				   .time_ms = now_ms,
				   .offset = note ? 0 : l->written[output_index(stream)] };
	struct iovec parts[] = { { .iov_base = &r, .iov_len = OUTPUT_RECORD_HEAD },
				 { .iov_base = (void *)(uintptr_t)bytes, .iov_len = n } };

	if (open_log(l) < 0)
		return false;
	if (pwritev(l->fd, parts, 2, (off_t)l->size) != (ssize_t)(OUTPUT_RECORD_HEAD + n)) {
		IGNORED(ftruncate(l->fd, (off_t)l->size), "what is after size is never read");
		return false;
	}
	l->size += OUTPUT_RECORD_HEAD + n;
	*(note ? &l->noted : &l->kept) += n;
	l->notes = note ? l->notes + 1 : 0;
	return true;
}

void output_log_append(struct output_log *l, enum output_stream stream, const uint8_t *bytes,
		       size_t n, uint64_t now_ms)
{
	if (n > 0 && !l->cut) {
		const char *why;
		size_t room = find_room(l, n, &why);

		if (room > 0 && !output_log_append_or_refuse(l, stream, bytes, room, now_ms)) {
			room = 0;
			why = OUTPUT_BY_DISK;
		}
		if (room < n)
			mark_cut(l, why, now_ms);
	}
	l->written[output_index(stream)] += n;
}

void output_log_note(struct output_log *l, enum output_stream stream, const void *bytes, size_t n,
		     uint64_t now_ms)
{
	if (n > 0 && !l->cut && l->notes < OUTPUT_NOTES_MAX && l->noted + n <= l->limit &&
	    l->room >= OUTPUT_RECORD_HEAD + n)
		IGNORED(output_log_append_or_refuse(l, stream, bytes, n, now_ms) ? 0 : -1,
			"output matters more");
}

void output_log_drop(struct output_log *l, enum output_stream stream, uint64_t n, uint64_t now_ms)
{
	if (!l->cut)
		mark_cut(l, OUTPUT_BY_END, now_ms);
	l->written[output_index(stream)] += n;
}

/* Are the next bytes in the pipe those of the open record, apart from masked ones? */
static bool is_in_pipe(const struct output_log *l, int pipe_fd)
{
	OWN_MEM uint8_t *there = malloc(l->open.len), *logged = malloc(l->open.len);
	ssize_t n;

	if (there == NULL || logged == NULL)
		return false;
	n = pipe_io_peek(pipe_fd, there, l->open.len);
	if (n != (ssize_t)l->open.len ||
	    pread(l->fd, logged, l->open.len, (off_t)(l->size + OUTPUT_RECORD_HEAD)) != n)
		return false;
	for (ssize_t i = 0; i < n; i++)
		if (logged[i] != '*' && logged[i] != there[i])
			return false;
	return true;
}

void output_log_settle(struct output_log *l, enum output_stream stream, int pipe_fd)
{
	struct output_record r = { .len = l->open.len,
				   .stream = l->open.stream,
				   .time_ms = l->open.time_ms,
				   .offset = l->written[output_index(stream)] };

	if (l->open.len == 0 || l->open.stream != stream)
		return;
	if (pipe_fd >= 0 && is_in_pipe(l, pipe_fd)) {
		IGNORED(ftruncate(l->fd, (off_t)l->size), "what is after size is never read");
	} else if (output_record_write(l->fd, l->size, &r) == 0) {
		output_log_count(l, &r);
		l->size += OUTPUT_RECORD_HEAD + r.len;
	}
	l->open.len = 0;
}

int output_log_move(struct output_log *l, enum output_stream stream, int pipe_fd, uint64_t now_ms,
		    struct err *e)
{
	ssize_t dropped;
	int there = 0;
	size_t want;

	if (ioctl(pipe_fd, FIONREAD, &there) < 0)
		return err_sys(e, "output of %s", l->name);
	want = there <= 0 ? 0 : in_turn(l, there);
	if (want == 0)
		return 0;
	if (!l->cut) {
		const char *why;
		size_t n = find_room(l, want, &why);
		size_t kept = n == 0 ? 0 : output_log_keep(l, stream, pipe_fd, n, now_ms);

		if (kept == n && n == want)
			return 1;
		if (kept < n)
			why = OUTPUT_BY_DISK;
		else if (l->wait_for_room && strcmp(why, OUTPUT_BY_SESSION) == 0)
			return 1;
		mark_cut(l, why, now_ms);
		want -= kept;
	}
	dropped = pipe_io_drop(pipe_fd, want);
	if (dropped > 0)
		l->written[output_index(stream)] += (uint64_t)dropped;
	return 1;
}
