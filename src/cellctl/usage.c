#include "usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "own.h"

enum { DIR_CPU, DIR_CPUACCT, DIR_MEMORY, DIR_PIDS };

/* Which file of which directory says it, in each version. Some are not in every kernel. */
static const struct {
	size_t offset;
	int version;
	unsigned dir;
	const char *file, *word;
	unsigned divide;
	bool rare; /* asked for only by who wants all */
} sources[] = {
	{ offsetof(struct usage, cpu_us), 1, DIR_CPUACCT, "cpuacct.usage", "", 1000 },
	{ offsetof(struct usage, memory_bytes), 1, DIR_MEMORY, "memory.usage_in_bytes", "", 1 },
	{ offsetof(struct usage, memory_peak_bytes), 1, DIR_MEMORY, "memory.max_usage_in_bytes", "",
	  1 },
	{ offsetof(struct usage, oom_kills), 1, DIR_MEMORY, "memory.oom_control", "oom_kill", 1,
	  true },
	{ offsetof(struct usage, pids), 1, DIR_PIDS, "pids.current", "", 1 },
	{ offsetof(struct usage, pids_peak), 1, DIR_PIDS, "pids.peak", "", 1, true },
	{ offsetof(struct usage, pids_refused), 1, DIR_PIDS, "pids.events", "max", 1, true },
	{ offsetof(struct usage, cpu_us), 2, 0, "cpu.stat", "usage_usec", 1 },
	{ offsetof(struct usage, memory_bytes), 2, 0, "memory.current", "", 1 },
	{ offsetof(struct usage, memory_peak_bytes), 2, 0, "memory.peak", "", 1 },
	{ offsetof(struct usage, oom_kills), 2, 0, "memory.events", "oom_kill", 1, true },
	{ offsetof(struct usage, pids), 2, 0, "pids.current", "", 1 },
	{ offsetof(struct usage, pids_peak), 2, 0, "pids.peak", "", 1, true },
	{ offsetof(struct usage, pids_refused), 2, 0, "pids.events", "max", 1, true },
};

uint64_t usage_field(const char *text, const char *word)
{
	size_t n = strlen(word);

	if (n == 0)
		return strtoull(text, NULL, 10);
	for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}

/* At once: the kernel gives such a file whole, and whoever asks for it again gets nothing. */
static bool read_text(int dir, const char *path, char *text, size_t cap)
{
	OWN_FD fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, cap - 1);

	text[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

static void read_sources(const struct cgroups *c, const char *id, bool all, struct usage *ret)
{
	char path[128], text[4096];

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < COUNT(sources); i++) {
		unsigned dir = sources[i].dir;
		uint64_t value;

		/* Often one hierarchy has both, and then cpuacct no directory of its own. */
		if (dir == DIR_CPUACCT && c->dirs[dir] < 0)
			dir = DIR_CPU;
		if (sources[i].version != c->version || c->dirs[dir] < 0 ||
		    (sources[i].rare && !all))
			continue;
		(void)snprintf(path, sizeof(path), CELL_CGROUP_PREFIX "%s/%s", id, sources[i].file);
		if (!read_text(c->dirs[dir], path, text, sizeof(text)))
			continue;
		value = usage_field(text, sources[i].word) / sources[i].divide;
		memcpy((char *)ret + sources[i].offset, &value, sizeof(value));
	}
}

void usage_read(const struct cgroups *c, const char *id, struct usage *ret)
{
	read_sources(c, id, true, ret);
}

void usage_read_little(const struct cgroups *c, const char *id, struct usage *ret)
{
	read_sources(c, id, false, ret);
}
