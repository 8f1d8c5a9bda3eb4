/* Any bytes as the archive of a capture, unpacked into a directory of its own: what is made stays
 * in it, is no device but a whiteout, and is bounded; what is beside it does not change. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "storage/unpack_capture.h"

unsigned long fuzz_accepted;

struct source {
	const uint8_t *at;
	size_t left;
};

static char top[64], beside[64];
static unsigned found;

static ssize_t read_source(void *arg, void *ret, size_t cap, struct err *e)
{
	struct source *s = arg;
	size_t n = s->left < cap ? s->left : cap;

	memcpy(ret, s->at, n);
	s->at += n;
	s->left -= n;
	return (ssize_t)n;
}

/* The jail is not there: everything belongs to the user that runs this. */
struct storage_ids storage_jail_ids(void)
{
	return (struct storage_ids){ .single = true };
}

static int look(const char *path, const struct stat *st, int kind, struct FTW *f)
{
	found += strcmp(path, top) != 0;
	assert(!S_ISBLK(st->st_mode) && !S_ISSOCK(st->st_mode));
	assert(!S_ISCHR(st->st_mode) || st->st_rdev == makedev(0, 0));
	return 0;
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *f)
{
	return f->level == 0 ? 0 : remove(path);
}

static void clean_up(void)
{
	(void)rmdir(top);
	(void)rmdir(beside);
}

static void set_up(void)
{
	if (top[0] != '\0')
		return;
	(void)snprintf(beside, sizeof(beside), "/tmp/cordon-fuzz-XXXXXX");
	assert(mkdtemp(beside) != NULL);
	(void)snprintf(top, sizeof(top), "%.40s/layer", beside);
	assert(mkdir(top, 0700) == 0 && atexit(clean_up) == 0);
}

static unsigned entries_of(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = fuzz_copy(data, size);
	struct source s = { exact, size };
	struct err e = { 0 };
	struct stream_in *in = stream_in_new(read_source, &s, 64U << 20, false, &e);
	struct unpack_capture u = { .ids = { .single = true },
				    .count = { .bytes_max = 1 << 20, .entries_max = 100 } };

	set_up();
	u.top = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(u.top >= 0);
	fuzz_accepted += unpack_capture(in, &u, &e) == 0;
	found = 0;
	(void)nftw(top, look, 20, FTW_PHYS);
	assert(found <= u.count.entries && u.count.entries <= 100 && u.count.bytes <= 1 << 20);
	assert(entries_of(beside) == 3);
	(void)nftw(top, drop, 20, FTW_PHYS | FTW_DEPTH);
	(void)close(u.top);
	stream_in_free(in);
	free(exact);
	return 0;
}
