/* advisories_info.c - see advisories_info.h. Reads the first line of the file; called for each
 * request of metrics. */
#include "advisories_info.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisories.h"
#include "clock.h"
#include "own.h"

void advisories_info(const char *state_dir, uint64_t *ret_lines, uint64_t *ret_age_s)
{
	char path[256], head[128];
	uint64_t now = clock_wall_ms() / 1000;
	struct advisories list;
	const char *end;
	ssize_t n;

	*ret_lines = *ret_age_s = 0;
	(void)snprintf(path, sizeof(path), "%.200s/advisories", state_dir);
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, head, sizeof(head));
	end = n <= 0 ? NULL : memchr(head, '\n', (size_t)n);
	if (end == NULL || !advisories_open(head, (size_t)(end - head) + 1, &list))
		return;
	*ret_lines = list.lines;
	*ret_age_s = now > list.time_s ? now - list.time_s : 0;
}
