/* build_limits.c - the limits that a command of a build hit, for build_run.c and build_run.c.
 *
 * A layer is used by many sessions, for months. So a command cut short by a limit fails the step,
 * even if the command ends with 0: a package manager that ignores a failed write leaves half a
 * package. */
#include <stdio.h>
#include <string.h>

#include "daemon/images/build_cell.h"

/* A row for each limit that executions report in limits_hit. The texts end up in errors of builds.
 */
struct build_limit {
	const char *name, *remedy;
	const char *remedy_in_memory; /* of a step without a disk. NULL: the same */
	bool loses_files;	      /* fails a command that ends with 0 */
};

static const struct build_limit build_limits[] = {
	{ "disk", "the operator gives the steps larger disks by the setting build_disk",
	  "the operator gives the steps more room by the setting disk_default", true },
	{ "inodes",
	  "too many files: the operator gives the steps larger disks by the setting build_disk",
	  "too many files: the operator allows more by the setting inodes_default", true },
	{ "memory", "a process was killed: build with more memory, --memory or memoryMB", NULL,
	  true },
	{ "pids",
	  "a process could not be started: the operator allows more by the setting pids_default",
	  NULL, false },
};

/* True if the step's files are in memory, so that other settings bound them. */
static bool in_memory(const struct build *b)
{
	return b->no_disk || core_config(b->core)->build_disk == 0;
}

bool build_limits_lose_files(const char *list)
{
	for (size_t i = 0; i < COUNT(build_limits); i++)
		if (build_limits[i].loses_files && execution_limit_in(list, build_limits[i].name))
			return true;
	return false;
}

const char *build_limits_text(const struct build *b, const char *list, char ret[BUILD_LIMITS_TEXT])
{
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < COUNT(build_limits); i++) {
		const struct build_limit *l = &build_limits[i];
		bool other = l->remedy_in_memory != NULL && in_memory(b);

		if (execution_limit_in(list, l->name))
			n += (size_t)snprintf(ret + n, BUILD_LIMITS_TEXT - n,
					      "; limit reached: %s (%s)", l->name,
					      other ? l->remedy_in_memory : l->remedy);
	}
	return ret;
}
