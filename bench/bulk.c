#include "bulk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "calls.h"
#include "link.h"

#define BLOCK (256U << 10)

static struct link l, live;
static char block[BLOCK];

static void say(const char *name, uint64_t bytes, int64_t ns)
{
	(void)printf("%s\t%llu\t%.3f\n", name, (unsigned long long)bytes, (double)ns / 1e9);
	(void)fflush(stdout);
}

static void wanted(int status, const char *what)
{
	if (l.status != status)
		link_die("%s: status %d: %.300s", what, l.status, l.body);
}

/* Two processors: the program and what it talks to must not take turns. */
static void create_session(const char *limits, char id[CALLS_ID_MAX])
{
	char body[256];

	link_open(&l);
	(void)snprintf(body, sizeof(body), "{\"limits\":{\"cpus\":2%s},\"timeout\":\"1h\"}",
		       limits);
	calls_create(&l, body, id);
}

static void remove_session(const char *id)
{
	calls_delete(&l, id);
	link_close(&l);
}

static void start_output(const char *session, uint64_t bytes, char id[CALLS_ID_MAX])
{
	char path[128], body[256];

	(void)snprintf(path, sizeof(path), "/v1/sessions/%s/executions", session);
	(void)snprintf(body, sizeof(body),
		       "{\"argv\":[\"/bin/dd\",\"if=/dev/zero\",\"bs=64K\",\"count=%llu\","
		       "\"status=none\"],\"output_limit\":%llu}",
		       (unsigned long long)bytes >> 16, (unsigned long long)bytes + 4096);
	(void)link_ask(&l, "POST", path, body);
	wanted(202, "execute");
	link_member(&l, "id", id, CALLS_ID_MAX);
}

static void wait_until_kept(const char *session, const char *id, uint64_t bytes)
{
	const struct timespec nap = { .tv_nsec = 2000000 };
	char path[192], state[32], count[64];

	(void)snprintf(path, sizeof(path), "/v1/sessions/%s/executions/%s", session, id);
	for (;;) {
		(void)link_ask(&l, "GET", path, NULL);
		wanted(200, "look");
		link_member(&l, "state", state, sizeof(state));
		if (strstr(l.body, "\"output_open\":false") != NULL &&
		    strcmp(state, "running") != 0 && strcmp(state, "starting") != 0)
			break;
		(void)nanosleep(&nap, NULL);
	}
	(void)snprintf(count, sizeof(count), "\"stdout_bytes\":%llu,", (unsigned long long)bytes);
	if (strstr(l.body, count) == NULL || strstr(l.body, "\"output_truncated\":false") == NULL)
		link_die("output is not whole: %.400s", l.body);
}

/* Reads an answer's long body to its end; how many bytes it had. */
static uint64_t read_body(int status)
{
	struct link_body b = link_head(&l, status);
	uint64_t bytes = 0;
	bool over = link_count(&b, l.body, l.body_len, &bytes);

	while (!over) {
		ssize_t n = recv(l.fd, block, sizeof(block), 0);

		if (n <= 0)
			link_die("body ends early: %s", n == 0 ? "closed" : strerror(errno));
		over = link_count(&b, block, (size_t)n, &bytes);
	}
	return bytes;
}

/* ---- WebSocket: counts the bytes of binary frames, less the byte that names their channel, until
 * the server closes. Frames come unmasked. */

struct frames {
	uint8_t head[10];
	unsigned have; /* of the head */
	uint64_t left; /* of the payload */
	uint64_t bytes;
	bool over;
};

static void frame_head(struct frames *f, uint8_t c)
{
	unsigned need, op = f->head[0] & 15U;
	uint64_t len;

	f->head[f->have++] = c;
	if (f->have < 2)
		return;
	len = f->head[1] & 127U;
	need = len == 126 ? 4 : len == 127 ? 10 : 2;
	if (f->have < need)
		return;
	if (need > 2)
		len = 0;
	for (unsigned i = 2; i < need; i++)
		len = len << 8 | f->head[i];
	f->have = 0;
	f->left = len;
	if (op == 2 && len > 0)
		f->bytes += len - 1;
	f->over = op == 8;
}

static void count_frames(struct frames *f, const char *data, size_t len)
{
	while (len > 0 && !f->over) {
		size_t n = len < f->left ? len : (size_t)f->left;

		f->left -= n;
		data += n;
		len -= n;
		if (len > 0) {
			frame_head(f, (uint8_t)*data++);
			len--;
		}
	}
}

static uint64_t read_live(const char *session, const char *id)
{
	char path[192];
	struct frames f = { 0 };

	(void)snprintf(path, sizeof(path), "/v1/sessions/%s/executions/%s/attach", session, id);
	link_open(&live);
	link_send_head(&live, "GET", path, 0,
		       "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
	(void)link_head(&live, 101);
	count_frames(&f, live.body, live.body_len);
	while (!f.over) {
		ssize_t n = recv(live.fd, block, sizeof(block), 0);

		if (n <= 0)
			break;
		count_frames(&f, block, (size_t)n);
	}
	link_close(&live);
	return f.bytes;
}

void bulk_output(uint64_t bytes)
{
	char session[CALLS_ID_MAX], id[CALLS_ID_MAX], path[192];
	int64_t begin;
	uint64_t got;

	create_session("", session);
	begin = link_now_ns();
	start_output(session, bytes, id);
	wait_until_kept(session, id, bytes);
	say("output of one execution, kept", bytes, link_now_ns() - begin);
	(void)snprintf(path, sizeof(path), "/v1/sessions/%s/executions/%s/output?stream=stdout",
		       session, id);
	begin = link_now_ns();
	link_send(&l, "GET", path, NULL);
	if (read_body(200) != bytes)
		link_die("output read back is not whole");
	say("the same read back, one GET", bytes, link_now_ns() - begin);
	begin = link_now_ns();
	start_output(session, bytes, id);
	got = read_live(session, id);
	if (got != bytes)
		link_die("the WebSocket gave %llu of %llu bytes", (unsigned long long)got,
			 (unsigned long long)bytes);
	say("output read live, WebSocket", bytes, link_now_ns() - begin);
	wait_until_kept(session, id, bytes);
	remove_session(session);
}

/* ---- files */

static void send_body(uint64_t bytes)
{
	while (bytes > 0) {
		size_t want = bytes < sizeof(block) ? (size_t)bytes : sizeof(block);
		ssize_t n = send(l.fd, block, want, MSG_NOSIGNAL);

		if (n <= 0)
			link_die("upload: %s", strerror(errno));
		bytes -= (uint64_t)n;
	}
}

void bulk_files(uint64_t bytes)
{
	char session[CALLS_ID_MAX], path[192], limits[96];
	int64_t begin;

	(void)snprintf(limits, sizeof(limits), ",\"memory\":%llu,\"disk\":%llu",
		       (unsigned long long)bytes + (512U << 20),
		       (unsigned long long)bytes + (64U << 20));
	create_session(limits, session);
	(void)snprintf(path, sizeof(path), "/v1/sessions/%s/files?path=bulk", session);
	begin = link_now_ns();
	link_send_head(&l, "PUT", path, bytes, "");
	send_body(bytes);
	while (!link_feed(&l, 0))
		;
	wanted(201, "upload");
	say("file upload", bytes, link_now_ns() - begin);
	begin = link_now_ns();
	link_send(&l, "GET", path, NULL);
	if (read_body(200) != bytes)
		link_die("download is not whole");
	say("file download", bytes, link_now_ns() - begin);
	remove_session(session);
}
