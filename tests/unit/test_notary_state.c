/* What cordon-notary remembers, when the process ends or a call fails at every point of a write.
 * pwrite and fdatasync are wrapped: the first writes some bytes and ends the process, or fails. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lib/base/rmtree.h"
#include "notary/notary_judge.h"
#include "notary/notary_state.h"

ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at);
int __wrap_fdatasync(int fd);

static ssize_t end_after = -1; /* bytes of a write, then the process ends */
static ssize_t short_after = -1;
static int write_error, sync_error;
static unsigned syncs;

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
	if (end_after >= 0) {
		ssize_t written = __real_pwrite64(fd, bytes, (size_t)end_after, at);

		_exit(written == end_after ? 42 : 1);
	}
	if (short_after >= 0)
		return __real_pwrite64(fd, bytes, (size_t)short_after, at);
	if (write_error != 0) {
		errno = write_error;
		return -1;
	}
	return __real_pwrite64(fd, bytes, n, at);
}

int __wrap_fdatasync(int fd)
{
	syncs++;
	errno = sync_error;
	return sync_error == 0 ? 0 : -1;
}

static struct notary_state state;
static char folder[64];
static int dir = -1;
static struct err e;

static struct tlog_hash root_of(uint64_t size)
{
	struct tlog_hash h;

	tlog_leaf(&size, sizeof(size), &h);
	return h;
}

static void begin(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/notary-state-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && notary_state_open(&state, dir, "logs", true, &e) == 0);
}

static void again(void)
{
	notary_state_close(&state);
	CHECK(notary_state_open(&state, dir, "logs", false, &e) == 0);
}

static void finish(void)
{
	notary_state_close(&state);
	CHECK(unlinkat(dir, "logs", 0) == 0 && rmdir(folder) == 0);
	fd_close(dir);
}

static int put(const char *origin, uint64_t size)
{
	struct tlog_hash root = root_of(size);

	return notary_state_put(&state, origin, size, &root, &e);
}

/* 0: not known. */
static uint64_t size_of(const char *origin)
{
	const struct notary_log *l = notary_state_find(&state, origin);
	struct tlog_hash root;

	if (l == NULL)
		return 0;
	root = root_of(l->size);
	CHECK(strcmp(l->origin, origin) == 0 && tlog_hash_equal(&l->root, &root));
	return l->size;
}

static void remembers(void)
{
	begin();
	for (uint64_t size = 1; size < 9; size++) {
		CHECK(put("n/a/1", size) == 0 && put("n/b/1", 10 * size) == 0);
		CHECK(size_of("n/a/1") == size && size_of("n/b/1") == 10 * size);
		CHECK(size_of("n/c/1") == 0 && state.n == 2);
		if (size % 3 == 0)
			again();
	}
	CHECK(syncs >= 16);
	finish();
}

/* A child writes some bytes of a record and ends. Returns how it ended. */
static int child_puts(const char *origin, uint64_t size, ssize_t bytes)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		end_after = bytes;
		_exit(put(origin, size));
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_change_that_ends_anywhere(void)
{
	uint64_t now = 5;

	begin();
	CHECK(put("n/a/1", 3) == 0 && put("n/b/1", now) == 0 && put("n/c/1", 7) == 0);
	for (ssize_t bytes = 0; bytes <= NOTARY_SLOT; bytes += bytes < 130 ? 1 : 19) {
		uint64_t got;

		CHECK(child_puts("n/b/1", now + 1, bytes) == 42);
		again();
		got = size_of("n/b/1");
		/* What is behind the origin is zeros before and after. */
		CHECK(got == now || (got == now + 1 && bytes >= 80));
		CHECK(state.damaged == 0 && size_of("n/a/1") == 3 && size_of("n/c/1") == 7);
		CHECK(put("n/b/1", got + 1) == 0);
		again();
		now = size_of("n/b/1");
		CHECK(now == got + 1);
	}
	CHECK(child_puts("n/b/1", now + 1, NOTARY_SLOT) == 42);
	again();
	CHECK(size_of("n/b/1") == now + 1);
	finish();
}

static void a_new_log_that_ends_anywhere(void)
{
	char origin[32];

	begin();
	CHECK(put("n/a/1", 3) == 0);
	for (ssize_t bytes = 0; bytes <= NOTARY_SLOT; bytes += bytes < 130 ? 3 : 29) {
		uint64_t got;

		(void)snprintf(origin, sizeof(origin), "n/x/%zd", bytes + 1);
		CHECK(child_puts(origin, 9, bytes) == 42);
		again();
		got = size_of(origin);
		CHECK(got == 0 || (got == 9 && bytes > 80));
		CHECK(state.damaged == 0 && size_of("n/a/1") == 3);
		CHECK(put(origin, 10) == 0);
		again();
		CHECK(size_of(origin) == 10 && state.damaged == 0);
	}
	finish();
}

static void calls_that_fail(void)
{
	begin();
	CHECK(put("n/a/1", 3) == 0);
	for (int kind = 0; kind < 3; kind++) {
		uint64_t now = size_of("n/a/1");
		uint32_t records = state.records;

		write_error = kind == 0 ? ENOSPC : 0;
		short_after = kind == 1 ? 60 : -1;
		sync_error = kind == 2 ? EIO : 0;
		CHECK(put("n/a/1", now + 1) == NOTARY_DISK && size_of("n/a/1") == now);
		CHECK(put("n/b/1", 1) == NOTARY_DISK && size_of("n/b/1") == 0);
		CHECK(state.records == records);
		write_error = sync_error = 0;
		short_after = -1;
		CHECK(put("n/a/1", now + 2) == 0);
		again();
		CHECK(size_of("n/a/1") == now + 2 && state.damaged == 0);
	}
	finish();
}

static void flip(off_t at)
{
	char path[96];
	uint8_t byte;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/logs", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte ^= 0x10;
	CHECK(__real_pwrite64(fd, &byte, 1, at) == 1);
	fd_close(fd);
}

static void flipped_bits(void)
{
	begin();
	CHECK(put("n/a/1", 3) == 0 && put("n/a/1", 4) == 0 && put("n/b/1", 5) == 0);
	for (off_t at = 0; at < NOTARY_SLOT; at += 37) {
		/* The newer slot: the older holds. The older: the newer holds. */
		flip(NOTARY_RECORD + NOTARY_SLOT + at);
		again();
		CHECK(size_of("n/a/1") == 3 && state.damaged == 0);
		flip(NOTARY_RECORD + at);
		again();
		CHECK(size_of("n/a/1") == 0 && state.damaged == 1 && size_of("n/b/1") == 5);
		CHECK(put("n/c/1", 1) == NOTARY_DAMAGED && put("n/b/1", 5) == 0);
		flip(NOTARY_RECORD + NOTARY_SLOT + at);
		again();
		CHECK(size_of("n/a/1") == 4 && state.damaged == 0);
		flip(NOTARY_RECORD + at);
	}
	flip(3);
	notary_state_close(&state);
	CHECK(notary_state_open(&state, dir, "logs", false, &e) < 0);
	finish();
}

static void the_most_logs(void)
{
	char origin[40];

	begin();
	for (unsigned i = 0; i < NOTARY_LOGS; i++) {
		(void)snprintf(origin, sizeof(origin), "n/l%u/1", i);
		CHECK(put(origin, i + 1) == 0);
	}
	CHECK(put("n/more/1", 1) == NOTARY_FULL);
	again();
	CHECK(state.n == NOTARY_LOGS && put("n/more/1", 1) == NOTARY_FULL);
	for (unsigned i = 0; i < NOTARY_LOGS; i += 997) {
		(void)snprintf(origin, sizeof(origin), "n/l%u/1", i);
		CHECK(size_of(origin) == i + 1 && put(origin, i + 2) == 0);
	}
	finish();
}

static void origins(void)
{
	static const char *const bad[] = { "",	      "n",	 "n/",
					   "n/a",     "n/a/",	 "n/a/0",
					   "n/a/01",  "n/a/1x",	 "n/a/1/1",
					   "n//1",    "m/a/1",	 "nn/a/1",
					   "n/a b/1", "n/a.b/1", "n/a/1234567890",
					   "n/a/-1" };

	CHECK(notary_origin_is_valid("n", "n/a/1") && notary_origin_is_valid("n", "n/T_x-9/10"));
	CHECK(notary_origin_is_valid("n", "n/a/999999999"));
	CHECK(!notary_origin_is_valid("", "/a/1"));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!notary_origin_is_valid("n", bad[i]));
}

TEST_MAIN({ "remembers", remembers },
	  { "a change that ends anywhere", a_change_that_ends_anywhere },
	  { "a new log that ends anywhere", a_new_log_that_ends_anywhere },
	  { "calls that fail", calls_that_fail }, { "flipped bits", flipped_bits },
	  { "the most logs", the_most_logs }, { "origins", origins })
