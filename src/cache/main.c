/* main.c - cordon-cache, the process that keeps package files. Only the order of its start is here;
 * cache.h lists its parts.
 *
 * It is started by cordon serve with the channel to cordond and one folder, as a user of its own,
 * and ends when the channel closes. If it dies, packages are fetched without it until the next one
 * runs; what it had stored completely is still there. */
#include <fcntl.h>
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

#include "cache_control.h"
#include "cache_peer.h"
#include "confine_cache.h"
#include "fd_std.h"
#include "kernel.h"
#include "log.h"
#include "supervisor_msg.h"

#define LOCK_TRIES 100
#define LOCK_MS 100

/* "--start=F:L:BYTES:FILES:RESERVE": format and level of the log, as the numbers of log.h; the
 * bounds of the cache; percent of the disk that stay free. */
static bool read_word(const char *word, struct cache *c, unsigned *ret_reserve)
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
static int lock(int dir, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_MS * 1000000L };

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir, LOCK_EX | LOCK_NB) == 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_sys(e, "another cordon-cache has the folder");
}

static void raise_nofile(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

static int start(struct cache *c, unsigned reserve, struct err *e)
{
	raise_nofile();
	if (lock(CACHE_FD_DIR, e) < 0 || confine_cache_files(CACHE_FD_DIR, e) < 0)
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
	if (confine_cache_calls(e) < 0)
		return err_wrap(e, "confine");
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
	    !read_word(argv[1], &cache, &reserve)) {
		(void)fprintf(stderr, "cordon-cache: must be started by cordon serve\n");
		return 2;
	}
	(void)kernel_close_range(CACHE_FDS_END, ~0U);
	(void)prctl(PR_SET_NAME, "cordon-cache", 0, 0, 0); /* executed by descriptor */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)umask(077);
	(void)signal(SIGPIPE, SIG_IGN);
	if (start(&cache, reserve, &e) < 0) {
		log_error("cordon-cache cannot start", "error=%s", e.msg);
		return 1; /* the server works without it, and tries again */
	}
	if (loop_run(cache.loop, &e) < 0) {
		log_error("cordon-cache failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
