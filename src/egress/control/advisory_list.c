/* advisory_list.c - see advisory_list.h. Only memory that no process can change or cut short any
 * more is mapped: a page that went away would end this process, and all sessions with it. */
#include "egress/control/advisory_list.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/log.h"

static struct {
	void *map; /* owned. NULL: none */
	size_t n;
	struct advisories list;
} now;

static void advisory_list_replace(void *map, size_t n, const struct advisories *list)
{
	if (now.map != NULL)
		(void)munmap(now.map, now.n);
	now.map = map;
	now.n = n;
	now.list = *list;
}

static bool is_sealed(int fd)
{
	const int want = F_SEAL_WRITE | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & want) == want;
}

/* The filter allows fstat(2). That of libc is another system call. */
static off_t size_of(int fd)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) < 0 ? -1 : st.st_size;
}

void advisory_list_set(int fd)
{
	struct advisories list = { .text = "" };
	off_t size = is_sealed(fd) ? size_of(fd) : -1;
	void *map;

	if (size < 0 || size > (off_t)ADVISORIES_MAX) {
		log_warn("the list of advisories is not sealed memory, or too long", "");
		return;
	}
	if (size == 0) {
		advisory_list_replace(NULL, 0, &list);
		return;
	}
	map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		log_warn("the list of advisories cannot be mapped", "");
		return;
	}
	if (!advisories_open(map, (size_t)size, &list)) {
		log_warn("advisories file is not in the format of `cordon packages advisories "
			 "import`",
			 "");
		(void)munmap(map, (size_t)size);
		return;
	}
	advisory_list_replace(map, (size_t)size, &list);
	log_info("advisories are in force", "lines=%" PRIu64, list.lines);
}

const struct advisories *advisory_list(void)
{
	return now.map == NULL ? NULL : &now.list;
}
