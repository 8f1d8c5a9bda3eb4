/* Goal: the memory of a guest that is copied, as a whole or as changes of the image that it maps,
 * is the same memory when it is put together again. A child process with such a mapping stands in
 * for the engine. */
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cell/engines/qemu/guest_memory.h"
#include "lib/base/own.h"
#include "test.h"

#define PAGE 4096U
#define PAGES 2048U /* several batches of each loop */
#define SIZE ((uint64_t)PAGES * PAGE)

static uint8_t want[SIZE]; /* what the engine's process has */

/* A page that names its place and maker. */
static void fill(uint8_t *page, unsigned number, const char *maker)
{
	(void)snprintf((char *)page, PAGE, "%s %u", maker, number);
	page[PAGE - 1] = 'x';
}

/* Every third run of 40 pages is data, the rest holes. */
static bool is_data(unsigned page)
{
	return page / 40 % 3 == 0;
}

static int make_base(void)
{
	uint8_t page[PAGE] = { 0 };
	struct err e;
	int fd = memfd_create("base", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)SIZE) == 0);
	for (unsigned i = 0; i < PAGES; i++) {
		if (!is_data(i))
			continue;
		fill(page, i, "base");
		CHECK(pwrite(fd, page, PAGE, (off_t)i * PAGE) == PAGE);
	}
	CHECK(guest_memory_seal(fd, &e) == 0);
	return fd;
}

/* Writes, zeros and reads, at data and holes of the base. */
static void change(uint8_t *memory, unsigned every)
{
	for (unsigned i = 0; i < PAGES; i += every) {
		uint8_t *page = memory + (size_t)i * PAGE;

		if (i % 4 == 0)
			fill(page, i, "own");
		else if (i % 4 == 1)
			memset(page, 0, PAGE);
		else if (i % 4 == 2)
			(void)*(volatile uint8_t *)page;
	}
}

/* A process that maps the base (-1: none) and changes what it has. */
static pid_t engine_start(int base, unsigned every)
{
	int up[2];
	char byte = 'u';
	pid_t pid;

	CHECK(pipe2(up, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		int fd = base >= 0 ? base : open("/dev/zero", O_RDWR);
		uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (memory == MAP_FAILED)
			_exit(1);
		if (every > 0)
			change(memory, every);
		if (write(up[1], &byte, 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	CHECK(read(up[0], &byte, 1) == 1);
	(void)close(up[0]);
	(void)close(up[1]);
	memset(want, 0, sizeof(want));
	if (base >= 0)
		CHECK(pread(base, want, SIZE, 0) == (ssize_t)SIZE);
	if (every > 0)
		change(want, every);
	return pid;
}

static void engine_end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static int take(pid_t pid, int base, uint64_t changes_max, bool *ret_changes)
{
	struct guest_memory m;
	struct err e;
	int fd, more;

	guest_memory_init(&m);
	CHECK(guest_memory_begin(&m, pid, base, SIZE, changes_max, &e) == 0);
	*ret_changes = m.only_changes;
	while ((more = guest_memory_step(&m, 3 * PAGE, &e)) > 0)
		;
	CHECK(more == 0 && guest_memory_take(&m, &fd, &e) == 0);
	return fd;
}

static uint64_t bytes_of(int fd)
{
	struct stat st;

	CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == SIZE);
	return (uint64_t)st.st_blocks * 512;
}

static bool is_wanted(int fd, uint64_t at)
{
	static uint8_t got[SIZE];

	CHECK(pread(fd, got, SIZE, (off_t)at) == (ssize_t)SIZE);
	return memcmp(got, want, SIZE) == 0;
}

static void the_whole_memory_is_copied(void)
{
	int base = make_base(), copy;
	uint64_t before = bytes_of(base);
	bool changes;

	for (unsigned every = 0; every < 4; every++) {
		pid_t pid = engine_start(base, every);

		copy = take(pid, base, 0, &changes);
		CHECK(!changes && is_wanted(copy, 0));
		CHECK(every > 0 || bytes_of(copy) == before);
		engine_end(pid);
	}
	pid_t pid = engine_start(-1, 3);
	copy = take(pid, -1, SIZE, &changes);
	CHECK(!changes && is_wanted(copy, 0));
	engine_end(pid);
}

/* Into a process that maps the same base. */
static void put(pid_t pid, int base, int changes)
{
	struct guest_memory_changes c;
	struct err e;
	int more;

	guest_memory_changes_init(&c);
	CHECK(guest_memory_changes_begin(&c, pid, base, SIZE, changes, &e) == 0);
	while ((more = guest_memory_changes_step(&c, 5 * PAGE, &e)) > 0)
		;
	CHECK(more == 0);
	guest_memory_changes_end(&c);
}

static uint64_t start_of(pid_t pid, int base)
{
	struct guest_memory m;
	struct err e;

	guest_memory_init(&m);
	CHECK(guest_memory_begin(&m, pid, base, SIZE, 0, &e) == 0);
	guest_memory_end(&m);
	return m.start;
}

static void changes_make_the_same_memory(void)
{
	int base = make_base();
	char path[64];
	bool changes;

	for (unsigned every = 0; every < 4; every++) {
		pid_t other = engine_start(base, 0), pid = engine_start(base, every);
		int fd = take(pid, base, SIZE, &changes), memory;

		CHECK(changes);
		CHECK(every == 0 ? bytes_of(fd) == 0 : bytes_of(fd) <= SIZE / every);
		put(other, base, fd);
		(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)other);
		memory = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(memory >= 0 && is_wanted(memory, start_of(other, base)));
		/* And once more, of the one that was made of it. */
		CHECK(is_wanted(take(other, base, 0, &changes), 0));
		engine_end(pid);
		engine_end(other);
	}
}

static void changes_have_a_bound(void)
{
	int base = make_base();
	pid_t pid = engine_start(base, 4); /* writes each fourth page */
	bool changes;

	(void)take(pid, base, SIZE / 4, &changes);
	CHECK(changes);
	CHECK(is_wanted(take(pid, base, SIZE / 4 - PAGE, &changes), 0) && !changes);
	engine_end(pid);
}

static void what_does_not_fit_is_refused(void)
{
	int base = make_base(), other = make_base(),
	    small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	pid_t pid = engine_start(base, 0);
	struct guest_memory_changes c;
	struct guest_memory m;
	struct err e;

	guest_memory_changes_init(&c);
	guest_memory_init(&m);
	CHECK(ftruncate(small, PAGE) == 0);
	CHECK(guest_memory_changes_begin(&c, pid, base, SIZE, small, &e) < 0 &&
	      e.code == ERR_INVALID);
	CHECK(guest_memory_changes_begin(&c, pid, other, SIZE, make_base(), &e) < 0 &&
	      e.code == ERR_NOT_FOUND);
	CHECK(guest_memory_begin(&m, pid, other, SIZE, SIZE, &e) < 0 && e.code == ERR_NOT_FOUND);
	guest_memory_changes_end(&c);
	guest_memory_end(&m);
	engine_end(pid);
}

TEST_MAIN({ "the whole memory is copied", the_whole_memory_is_copied },
	  { "changes make the same memory", changes_make_the_same_memory },
	  { "changes have a bound", changes_have_a_bound },
	  { "what does not fit is refused", what_does_not_fit_is_refused })
