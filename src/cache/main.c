/* main.c - cordon-cache, the process that keeps package files. The order of its start and its
 * channel to cordond are here. cache.h lists the other parts.
 *
 * It is started by cordon serve with the channel to cordond and one folder, as a user of its own,
 * and ends when the channel closes. If it dies, packages are fetched without it until the next one
 * runs. Completely stored files are still there. */
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/cache_peer.h"
#include "cache_program.h"
#include "lib/base/confine.h"
#include "lib/base/fd_std.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"
#include "lib/channel/channel.h"
#include "lib/wire/supervisor_msg.h"

/* ---- the channel to cordond
 *
 * Orders are answered in the order in which they come, but for those that take long: GC
 * goes through the index in pieces, VERIFY through the hashing thread. One of them runs at a time,
 * and another one is refused. cordond is trusted, but a packet other than an order still ends the
 * program: the two were not built together. */

#define ANSWERS_MAX (64 * CACHE_PACKET_MAX) /* that cordond has not read */

static struct {
	struct cache *cache;
	struct channel channel;
	/* The long order in progress. */
	uint32_t busy; /* its id. 0: none */
	struct loop_task more;
	uint64_t to_bytes;
	uint64_t count, bytes;
} control;

/* cordond reads its answers: a full queue is an error of the channel. */
static void control_answer(const struct cache_msg *m)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = cache_msg_write(m, packet, sizeof(packet));
	struct err e;

	if (n < 0 ||
	    channel_send(&control.channel,
			 &(struct channel_msg){ .bytes = packet, .len = (size_t)n }, &e) < 0) {
		log_error("answer to cordond lost", "type=%u", m->type);
		loop_stop(control.cache->loop);
	}
}

/* why: a constant. */
static void control_refuse(uint32_t id, enum err_code code, const char *why)
{
	control_answer(
		&(struct cache_msg){ .type = CACHE_REFUSED, .id = id, .code = code, .text = why });
}

/* ---- orders that take long
 *
 * control.busy has the id of the one in progress, which control_done() answers. */

static void control_done(uint64_t bad)
{
	const struct cache_msg m = { .type = CACHE_DONE,
				     .id = control.busy,
				     .count = control.count,
				     .size = control.bytes,
				     .bad = bad };

	control.busy = 0;
	control_answer(&m);
}

/* A bounded number of files in each turn. */
static void control_collect(void)
{
	if (cache_room_shrink(control.cache, control.to_bytes, &control.count, &control.bytes))
		loop_defer(control.cache->loop, &control.more);
	else
		control_done(0);
}

static void on_more(struct loop_task *t)
{
	control_collect();
}

static void on_checked(void *arg, const struct cache_checked *result)
{
	control.count = result->objects;
	control.bytes = result->bytes;
	control_done(result->bad);
}

static void control_begin(const struct cache_msg *m)
{
	if (control.busy != 0 || !control.cache->loaded) {
		control_refuse(m->id, ERR_CONFLICT,
			       "the package cache is busy: try again in a moment");
		return;
	}
	control.busy = m->id;
	control.count = control.bytes = 0;
	control.to_bytes = m->size;
	if (m->type != CACHE_VERIFY) {
		loop_defer(control.cache->loop, &control.more);
	} else if (!cache_check_start(control.cache, SIZE_MAX, on_checked, NULL)) {
		control.busy = 0;
		control_refuse(m->id, ERR_CONFLICT,
			       "objects are being checked: try again in a moment");
	}
}

/* ---- others
 *
 * Answered at once from the index. */

static void on_stats(uint32_t id)
{
	const struct cache *c = control.cache;
	struct cache_msg m = { .type = CACHE_STATED, .id = id, .stats = c->counts };

	m.stats.bytes = c->index.bytes;
	m.stats.max_bytes = c->max_bytes;
	m.stats.max_files = c->max_files;
	m.stats.objects = c->index.nobjects;
	m.stats.views = c->index.nviews;
	m.stats.seen = c->seen.n;
	m.stats.loading = !c->loaded;
	control_answer(&m);
}

/* False: it does not fit any more. */
static bool control_put_entry(struct codec *c, const struct cache_view *v)
{
	uint8_t bytes[VIEW_FILE_MAX];
	struct codec before = *c;
	struct cache_entry entry;
	struct view s;

	if (!cache_disk_get_view(&control.cache->disk, v->name, bytes, &s))
		return true;
	entry = (struct cache_entry){ .key = s.key,
				      .size = s.size,
				      .fetched_ms = s.fetched_ms,
				      .used_ms = v->object->used_ms };
	memcpy(entry.sha256, s.sha256, sizeof(entry.sha256));
	if (cache_entry(c, &entry))
		return true;
	*c = before;
	return false;
}

/* A place is a bucket and how many of its views were listed. From 1. */
static void on_list(uint32_t id, uint32_t place)
{
	static uint8_t entries[CACHE_PACKET_MAX - 64];
	struct codec c = codec_writer(entries, sizeof(entries));
	struct cache_msg m = { .type = CACHE_LISTED, .id = id, .entries = entries };
	uint32_t bucket = place >> 8, skip = place & 255, at = 0, looked = 0;

	for (; bucket < CACHE_BUCKETS && control.cache->loaded && looked < 512;
	     bucket++, skip = 0) {
		struct cache_view *v = control.cache->index.views[bucket];

		for (at = 0; v != NULL && at < 255; v = v->chain, at++) {
			if (at < skip)
				continue;
			looked++;
			if (control_put_entry(&c, v))
				continue;
			m.place = bucket << 8 | at;
			m.entries_len = (size_t)(c.to - entries);
			control_answer(&m);
			return;
		}
	}
	m.place = bucket < CACHE_BUCKETS && control.cache->loaded ? bucket << 8 : 0;
	m.entries_len = (size_t)(c.to - entries);
	control_answer(&m);
}

static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct cache_msg m;

	if (cache_msg_read(got->bytes, got->len, &m, e) < 0)
		return -1;
	if ((m.type == CACHE_LINK) != (channel_fds(c) == 1))
		return err_set(e, ERR_INVALID, "a descriptor is missing, or one too many came");
	if (m.type == CACHE_LINK)
		cache_peer_add(control.cache, m.slot, channel_take_fd(c));
	else if (m.type == CACHE_LIST)
		on_list(m.id, m.place);
	else if (m.type == CACHE_STATS)
		on_stats(m.id);
	else if (m.type == CACHE_GC || m.type == CACHE_VERIFY)
		control_begin(&m);
	else
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	return 0;
}

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	if (how != CHANNEL_CLOSED)
		log_error("channel to cordond failed", "error=%s", why);
	loop_stop(control.cache->loop);
}

/* sock is taken over. */
static int cache_control_open(struct cache *c, int sock, struct err *e)
{
	static const struct channel_rules rules = {
		.peer = "cordond", .in_max = CACHE_PACKET_MAX, .out_max = ANSWERS_MAX, .fds_max = 1
	};

	control.cache = c;
	control.more = (struct loop_task){ .on_run = on_more };
	channel_init(&control.channel, c->loop, &rules);
	control.channel.on_message = on_message;
	control.channel.on_end = on_end;
	return channel_attach(&control.channel, sock, e);
}

#define LOCK_TRIES 100
#define LOCK_MS 100

/* ---- the start */

/* "--start=F:L:BYTES:FILES:RESERVE": log format and level, as the numbers in log.h. The cache's
 * bounds. Percent of the disk that stay free. */
static bool main_read_word(const char *word, struct cache *c, unsigned *ret_reserve)
{
	static const char name[] = "--start";
	unsigned long long n[5];
	size_t at = sizeof(name) - 1;
	char *end;

	if (strncmp(word, name, at) != 0)
		return false;
	for (size_t i = 0; i < COUNT(n); i++) {
		if (word[at] != (i == 0 ? '=' : ':'))
			return false;
		n[i] = strtoull(word + at + 1, &end, 10);
		at = (size_t)(end - word);
	}
	if (word[at] != '\0' || n[0] >= LOG_FORMATS || n[1] >= LOG_LEVELS || n[4] > 100)
		return false;
	log_setup((enum log_format)n[0], (enum log_level)n[1]);
	c->max_bytes = n[2];
	c->max_files = n[3];
	*ret_reserve = (unsigned)n[4];
	return true;
}

/* The process before this one may still be ending. */
static int main_lock(int dir, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_MS * 1000000L };

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir, LOCK_EX | LOCK_NB) == 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_sys(e, "another cordon-cache has the folder");
}

static void main_raise_nofile(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* One folder, no network. Threads are started later. cordon-egress, whose requests this program
 * reads, may be taken over. Landlock of version 1 refuses renames between folders. */
static int main_confine_to(int dir, struct err *e)
{
	static const uint64_t never = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
				      LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
				      LANDLOCK_ACCESS_FS_MAKE_SYM;
	const struct confine_table table = {
		.abi = 2,
		.net = LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT,
		.places = { { .fds = &dir, .n = 1, .rights = CONFINE_CHANGE & ~never } },
	};

	return confine_files(&table, e);
}

/* System calls are closed last, since the steps before need more of them. */
static int main_start(struct cache *c, unsigned reserve, struct err *e)
{
	main_raise_nofile();
	if (main_lock(CACHE_FD_DIR, e) < 0 || main_confine_to(CACHE_FD_DIR, e) < 0)
		return -1;
	c->loop = loop_new(e);
	if (c->loop == NULL || cache_disk_open(&c->disk, CACHE_FD_DIR, reserve, e) < 0)
		return -1;
	if (!cache_index_init(&c->index))
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (seen_table_open(&c->seen, CACHE_FD_DIR, SEEN_MAX, e) < 0)
		return -1;
	c->syncs = cache_worker_new(c->loop, e);
	c->hashes = c->syncs == NULL ? NULL : cache_worker_new(c->loop, e);
	if (c->hashes == NULL || cache_control_open(c, CACHE_FD_CHANNEL, e) < 0)
		return -1;
	if (confine_calls(seccomp_cache, COUNT(seccomp_cache), e) < 0)
		return -1;
	c->on_loaded = cache_peers_start;
	cache_load_start(c);
	return 0;
}

int main(int argc, char **argv)
{
	static struct cache cache;
	unsigned reserve = 0;
	struct err e = { 0 };

	fd_std_fill();
	if (fcntl(CACHE_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(CACHE_FD_DIR, F_SETFD, FD_CLOEXEC) < 0 || argc != 2 ||
	    !main_read_word(argv[1], &cache, &reserve)) {
		(void)fprintf(stderr, "cordon-cache: must be started by cordon serve\n");
		return 2;
	}
	(void)kernel_close_range(CACHE_FDS_END, ~0U);
	(void)prctl(PR_SET_NAME, "cordon-cache", 0, 0, 0); /* executed by descriptor */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)umask(077);
	(void)signal(SIGPIPE, SIG_IGN);
	if (main_start(&cache, reserve, &e) < 0) {
		log_error("cordon-cache cannot start", "error=%s", e.msg);
		return 1; /* the server works without it, and tries again */
	}
	if (loop_run(cache.loop, &e) < 0) {
		log_error("cordon-cache failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
