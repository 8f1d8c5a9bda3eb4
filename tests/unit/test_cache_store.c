/* The parts of cordon-cache below its channels: files of views, the index, the list of first
 * sights, in a folder of its own. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache_disk.h"
#include "cache/cache_index.h"
#include "lib/base/crc32.h"
#include "lib/base/own.h"
#include "lib/base/rmtree.h"
#include "cache/seen_table.h"

static const struct view some = { .key = { "public", "npm npm.test", "/a/-/a-1.0.0.tgz" },
				  .meta = { "\"e\"", "Mon, 16 Nov 2026 10:00:00 GMT", "text/x" },
				  .fetched_ms = 1234567890123,
				  .size = 42,
				  .sha256 = { 1, 2, 3 } };

static void a_view_comes_back_whole_or_not_at_all(void)
{
	uint8_t bytes[VIEW_FILE_MAX];
	int n = view_file_write(&some, bytes);
	struct view v;

	CHECK(n > 0 && view_file_read(bytes, (size_t)n, &v));
	CHECK(strcmp(v.key.path, some.key.path) == 0 && strcmp(v.meta.etag, "\"e\"") == 0);
	CHECK(v.fetched_ms == some.fetched_ms && v.size == 42 && v.sha256[2] == 3);
	for (int i = 0; i < n; i++)
		CHECK(!view_file_read(bytes, (size_t)i, &v));
	for (int i = 0; i < n; i++) {
		bytes[i] ^= 1;
		CHECK(!view_file_read(bytes, (size_t)n, &v));
		bytes[i] ^= 1;
	}
}

static void names_of_views_do_not_run_into_each_other(void)
{
	const struct cache_key keys[] = {
		{ "a", "b", "c" }, { "ab", "", "c" },  { "a", "bc", "" },
		{ "", "ab", "c" }, { "a", "b", "c " }, { "A", "b", "c" }
	};
	uint8_t names[6][32];

	for (size_t i = 0; i < 6; i++)
		view_name(&keys[i], names[i]);
	for (size_t i = 0; i < 6; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(memcmp(names[i], names[k], 32) != 0);
}

static void name_of(unsigned n, uint8_t ret[32])
{
	memset(ret, 0, 32); /* all in few buckets, but for the seed */
	memcpy(ret, &n, sizeof(n));
}

static void the_index_keeps_objects_while_a_view_names_them(void)
{
	struct cache_object *one, *two, *gone;
	struct cache_index x;
	uint8_t a[32], b[32], va[32], vb[32];
	bool ok;

	CHECK(cache_index_init(&x));
	name_of(1, a);
	name_of(2, b);
	name_of(3, va);
	name_of(4, vb);
	one = cache_index_add(&x, a, 100);
	two = cache_index_add(&x, b, 50);
	CHECK(cache_index_add(&x, a, 100) == one && x.nobjects == 2 && x.bytes == 150);
	CHECK(cache_index_set(&x, va, one, &ok) == NULL && ok);
	CHECK(cache_index_set(&x, vb, one, &ok) == NULL && ok && x.nviews == 2);
	CHECK(cache_index_set(&x, va, two, &ok) == NULL && ok); /* vb still names it */
	gone = cache_index_set(&x, vb, two, &ok);
	CHECK(ok && gone == one && cache_index_view(&x, vb)->object == two && x.nviews == 2);
	cache_index_drop_object(&x, one);
	CHECK(cache_index_object(&x, a) == NULL && x.bytes == 50 && x.oldest == two);
	cache_index_release(&x);
}

static void the_index_orders_by_use(void)
{
	struct cache_index x;
	uint8_t name[32];
	uint64_t last = 0;

	CHECK(cache_index_init(&x));
	for (unsigned i = 0; i < 1000; i++) {
		name_of(i, name);
		cache_index_add(&x, name, 1)->used_ms = (i * 7919) % 1000;
	}
	CHECK(cache_index_sort(&x));
	for (struct cache_object *o = x.oldest; o != NULL; o = o->newer) {
		CHECK(o->used_ms >= last);
		last = o->used_ms;
	}
	name_of(0, name);
	cache_index_use(&x, cache_index_object(&x, name));
	CHECK(x.newest == cache_index_object(&x, name) && x.nobjects == 1000);
	cache_index_release(&x);
}

static char folder[] = "/tmp/cordon-cache-XXXXXX";

static int open_folder(void)
{
	int fd;

	CHECK(mkdtemp(folder) != NULL);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void files_get_their_name_when_they_are_complete(void)
{
	struct cache_disk d;
	uint8_t name[32], bytes[VIEW_FILE_MAX];
	char tmp[CACHE_DISK_NAME_MAX];
	struct view v;
	struct err e;
	int dir = open_folder(), fd;

	CHECK(cache_disk_open(&d, dir, 0, &e) == 0);
	view_name(&some.key, name);
	CHECK(!cache_disk_get_view(&d, name, bytes, &v));
	CHECK(cache_disk_put_view(&d, name, &some, &e) == 0);
	CHECK(cache_disk_get_view(&d, name, bytes, &v) && v.size == 42);
	CHECK(cache_disk_put_view(&d, some.sha256, &some, &e) == 0); /* under a wrong name */
	CHECK(!cache_disk_get_view(&d, some.sha256, bytes, &v));
	fd = cache_disk_create(&d, tmp, &e);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && cache_disk_object(&d, some.sha256) < 0);
	CHECK(cache_disk_keep(&d, tmp, CACHE_OBJECTS, some.sha256, &e) == 0);
	fd_close(fd);
	fd = cache_disk_object(&d, some.sha256);
	CHECK(fd >= 0 && write(fd, "y", 1) < 0);
	fd_close(fd);
	cache_disk_remove(&d, CACHE_OBJECTS, some.sha256);
	CHECK(cache_disk_object(&d, some.sha256) < 0);
	CHECK(cache_disk_missing(&d, 0) == 0 && cache_disk_missing(&d, UINT64_MAX) > 0);
	d.reserve = 100;
	CHECK(cache_disk_missing(&d, 0) > 0);
	fd_close(dir);
	rmtree(AT_FDCWD, folder);
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
}

static uint64_t see(struct seen_table *t, unsigned n, uint64_t now)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "m@%u", n);
	return seen_table_first(t, &some.key, name, now);
}

/* The last record is not whole. */
static void tear(int dir)
{
	int fd = openat(dir, "seen", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, lseek(fd, 0, SEEK_END) - 3) == 0);
	fd_close(fd);
}

static void the_older_half_of_first_sights_is_never_forgotten(void)
{
	struct seen_table t;
	struct err e;
	int dir = open_folder();

	CHECK(mkdirat(dir, "tmp", 0700) == 0 && seen_table_open(&t, dir, 1000, &e) == 0);
	for (unsigned i = 0; i < 1000; i++)
		CHECK(see(&t, i, i + 1) == i + 1);
	CHECK(see(&t, 0, 5000) == 1 && t.n == 1000);
	CHECK(see(&t, 1000, 5001) == 5001 && t.n < 1000); /* a quarter is gone */
	CHECK(see(&t, 999, 6000) == 1000 && see(&t, 0, 6000) == 1 && see(&t, 499, 6000) == 500);
	CHECK(see(&t, 600, 6001) == 6001); /* it was forgotten */
	seen_table_close(&t);
	CHECK(seen_table_open(&t, dir, 1000, &e) == 0);
	CHECK(see(&t, 999, 7000) == 1000 && see(&t, 600, 7001) == 6001 && see(&t, 0, 7002) == 1);
	for (unsigned i = 2000; i < 20000; i++)
		(void)see(&t, i, 9000);
	CHECK(see(&t, 0, 9001) == 1 && see(&t, 499, 9001) == 500 && t.n <= 1000);
	CHECK(see(&t, 30000, 9002) == 9002);
	seen_table_close(&t);
	tear(dir);
	CHECK(seen_table_open(&t, dir, 1000, &e) == 0);
	CHECK(see(&t, 30000, 9900) == 9900 && see(&t, 0, 9900) == 1); /* the torn one only */
	seen_table_close(&t);
	fd_close(dir);
	rmtree(AT_FDCWD, folder);
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
}

/* Names that begin alike, as anybody can find them by trying: written to the file, as if they had
 * been seen. Their search must begin at different places, or each costs as much as there are
 * others: at the start, and whenever the table grows. */
static void first_sights_that_begin_alike_are_found_quickly(void)
{
	enum { N = 60000, SIZE = 28 };
	OWN_MEM uint8_t *all = calloc(N, SIZE);
	struct seen_table t;
	struct timespec from, to;
	struct err e;
	int dir = open_folder(), fd;

	CHECK(all != NULL);
	for (uint32_t i = 0; i < N; i++) {
		uint8_t *r = all + (size_t)i * SIZE;
		uint32_t crc;

		memcpy(r + 8, &i, sizeof(i));
		r[16] = 1;
		crc = crc32_add(0, r, 24);
		for (unsigned k = 0; k < 4; k++)
			r[24 + k] = (uint8_t)(crc >> (8 * k));
	}
	fd = openat(dir, "seen", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, all, (size_t)N * SIZE) == (ssize_t)N * SIZE);
	fd_close(fd);
	CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from) == 0);
	CHECK(seen_table_open(&t, dir, SEEN_MAX, &e) == 0 && t.n == N);
	CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to) == 0);
	CHECK(to.tv_sec - from.tv_sec < 3); /* of CPU time: hundreds of times what it takes */
	seen_table_close(&t);
	fd_close(dir);
	rmtree(AT_FDCWD, folder);
}

TEST_MAIN({ "a view comes back whole or not at all", a_view_comes_back_whole_or_not_at_all },
	  { "names of views do not run into each other",
	    names_of_views_do_not_run_into_each_other },
	  { "the index keeps objects while a view names them",
	    the_index_keeps_objects_while_a_view_names_them },
	  { "the index orders by use", the_index_orders_by_use },
	  { "files get their name when they are complete",
	    files_get_their_name_when_they_are_complete },
	  { "the older half of first sights is never forgotten",
	    the_older_half_of_first_sights_is_never_forgotten },
	  { "first sights that begin alike are found quickly",
	    first_sights_that_begin_alike_are_found_quickly })
