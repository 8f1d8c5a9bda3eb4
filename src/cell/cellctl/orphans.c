/* orphans.c - see orphans.h. Two walks over the cgroup file systems: the first finds groups without
 * a server and the cells in them. The second (known_only) finds further directories of these cells
 * outside of groups: with cgroup v1, cells have a directory in the v2 hierarchy, too. */
#include "cell/cellctl/orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cell/cellctl/cgroups_group.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

#define DEPTH_MAX 8
#define DIRS_MAX 400000 /* cgroups looked at, over all hierarchies */
#define MOUNTS_MAX 32

struct orphan_search {
	struct orphans *found;
	unsigned left; /* of DIRS_MAX */
};

static bool orphans_begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The cell of that id, added if it is new. NULL if there are too many. */
static struct orphan *orphans_cell_of(struct orphans *o, const char *id)
{
	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->list[i].id, id) == 0)
			return &o->list[i];
	if (o->n == ORPHANS_MAX) {
		o->more = true;
		return NULL;
	}
	o->list[o->n] = (struct orphan){ 0 };
	str_copy(o->list[o->n].id, id);
	return &o->list[o->n++];
}

/* The whole text of a small file. "" if it cannot be read. */
static void orphans_read_text(int dir, const char *name, char *ret, size_t cap)
{
	struct err e;

	if (io_read_file(dir, name, ret, cap, &e) < 0)
		ret[0] = '\0';
}

static void orphans_read_comm(pid_t pid, char *ret, size_t cap)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	orphans_read_text(AT_FDCWD, path, ret, cap);
}

bool orphans_is_pid1_name(const char *comm)
{
	return strcmp(comm, "cordon-init\n") == 0 || strcmp(comm, "cordon-shim\n") == 0;
}

/* Is it PID 1 of a cell: by its name, and is its number in its pid namespace 1? */
static bool orphans_is_pid1(pid_t pid)
{
	char path[64], text[4096];
	const char *numbers;

	orphans_read_comm(pid, text, sizeof(text));
	if (!orphans_is_pid1_name(text))
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	orphans_read_text(AT_FDCWD, path, text, sizeof(text));
	numbers = strstr(text, "\nNSpid:");
	if (numbers == NULL)
		return false;
	numbers += strcspn(numbers + 1, "\n");
	return numbers[-1] == '\t' && numbers[0] == '1';
}

/* Read from one directory of the cell: its processes, and whether it is frozen. */
static void orphans_read_state(struct orphan *c, int dir)
{
	static char text[65536];
	unsigned n = 0;

	orphans_read_text(dir, "cgroup.procs", text, sizeof(text));
	for (char *at = text; isdigit((unsigned char)*at); n++, at += *at == '\n') {
		pid_t pid = (pid_t)strtol(at, &at, 10);

		if (c->pid1 == 0 && orphans_is_pid1(pid))
			c->pid1 = pid;
	}
	if (n > c->processes)
		c->processes = n;
	orphans_read_text(dir, "cgroup.freeze", text, sizeof(text));
	c->frozen |= text[0] == '1';
}

static void orphans_add_dir(struct orphan *c, int dir, const char *path)
{
	if (c == NULL || c->ndirs == CELL_CGROUP_DIRS)
		return;
	c->dirs[c->ndirs] = strdup(path);
	if (c->dirs[c->ndirs] == NULL)
		return;
	c->ndirs++;
	orphans_read_state(c, dir);
}

/* The server of a group has locked it, if it runs. */
static bool orphans_is_free(int dir)
{
	return flock(dir, LOCK_EX | LOCK_NB) == 0 && flock(dir, LOCK_UN) == 0;
}

static void orphans_add_group(struct orphans *o, const char *path)
{
	char *copy = o->ngroups < ORPHANS_MAX ? strdup(path) : NULL;

	if (copy != NULL)
		o->groups[o->ngroups++] = copy;
	else
		o->more = true;
}

/* Is the walk below a group without a server? */
enum orphan_place { PLACE_ANY, PLACE_ORPHANED };

static void orphans_walk(struct orphan_search *s, const char *path, unsigned depth,
			 enum orphan_place place, bool known_only);

/* Can it be part of a shell command that cordon doctor prints? Users to whom a cgroup is delegated
 * choose the names in it. */
static bool orphans_is_plain(const char *path)
{
	return path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "/._:@-")] == '\0';
}

/* One directory: a group, a cell, or one that may have these below it. */
static void orphans_visit(struct orphan_search *s, const char *path, const char *name,
			  unsigned depth, enum orphan_place place, bool known_only)
{
	OWN_FD dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct orphans *o = s->found;

	if (dir < 0)
		return;
	if ((orphans_begins(name, CELL_CGROUP_PREFIX) ||
	     orphans_begins(name, CGROUPS_GROUP_PREFIX)) &&
	    !orphans_is_plain(path))
		return;
	if (orphans_begins(name, CELL_CGROUP_PREFIX)) {
		const char *id = name + strlen(CELL_CGROUP_PREFIX);

		if (place == PLACE_ORPHANED && !known_only && strlen(id) < CELL_ID_MAX)
			orphans_add_dir(orphans_cell_of(o, id), dir, path);
		for (size_t i = 0; known_only && place == PLACE_ANY && i < o->n; i++)
			if (strcmp(o->list[i].id, id) == 0)
				orphans_add_dir(&o->list[i], dir, path);
		return;
	}
	if (orphans_begins(name, CGROUPS_GROUP_PREFIX)) {
		if (known_only || !orphans_is_free(dir))
			return;
		orphans_add_group(o, path);
		place = PLACE_ORPHANED;
	}
	orphans_walk(s, path, depth + 1, place, known_only);
}

static void orphans_walk(struct orphan_search *s, const char *path, unsigned depth,
			 enum orphan_place place, bool known_only)
{
	DIR *d = depth > DEPTH_MAX ? NULL : opendir(path);
	char below[PATH_MAX];

	if (d == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
		    (size_t)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >=
			    sizeof(below))
			continue;
		if (s->left == 0) {
			s->found->more = true;
			break;
		}
		s->left--;
		orphans_visit(s, below, entry->d_name, depth, place, known_only);
	}
	(void)closedir(d);
}

/* The mount points of cgroup file systems. Paths with octal escapes (blanks) are not decoded and so
 * not found. */
static size_t orphans_find_mounts(char (*ret)[PATH_MAX])
{
	FILE *f = fopen("/proc/self/mounts", "re");
	char line[2 * PATH_MAX], at[PATH_MAX], type[64];
	size_t n = 0;

	while (f != NULL && n < MOUNTS_MAX && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "%*s %4095s %63s", at, type) == 2 &&
		    (strcmp(type, "cgroup") == 0 || strcmp(type, "cgroup2") == 0))
			str_copy(ret[n++], at);
	if (f != NULL)
		(void)fclose(f);
	return n;
}

/* Is it of cordon run, whose cells end with their keeper? */
static bool orphans_has_keeper(pid_t pid)
{
	char path[64], text[4096];
	const char *parent;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	orphans_read_text(AT_FDCWD, path, text, sizeof(text));
	parent = strstr(text, "\nPPid:");
	if (parent == NULL)
		return true; /* it has just ended */
	orphans_read_comm((pid_t)strtol(parent + strlen("\nPPid:"), NULL, 10), text, sizeof(text));
	return strcmp(text, "cordon-keeper\n") == 0;
}

static bool orphans_is_in_cgroup_of_ours(pid_t pid)
{
	char path[64], text[8192];

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	orphans_read_text(AT_FDCWD, path, text, sizeof(text));
	return strstr(text, "/" CELL_CGROUP_PREFIX) != NULL;
}

/* Without cgroups: every PID 1 of a cell whose parent is not a keeper, if no cordond runs. */
static void orphans_find_by_process(struct orphans *o)
{
	DIR *d = opendir("/proc");
	size_t before = o->n;
	char comm[64];

	if (d == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0)
			continue;
		orphans_read_comm(pid, comm, sizeof(comm));
		if (strcmp(comm, "cordond\n") == 0) {
			o->n = before; /* they may be its cells */
			break;
		}
		if (o->n < ORPHANS_MAX && orphans_is_pid1(pid) &&
		    !orphans_is_in_cgroup_of_ours(pid) && !orphans_has_keeper(pid))
			o->list[o->n++] = (struct orphan){ .pid1 = pid, .processes = 1 };
	}
	(void)closedir(d);
}

int orphans_find(struct orphans *ret, struct err *e)
{
	struct orphan_search s = { .found = ret, .left = DIRS_MAX };
	char(*mounts)[PATH_MAX] = calloc(MOUNTS_MAX, sizeof(*mounts));
	size_t n;

	*ret = (struct orphans){ .list = calloc(ORPHANS_MAX, sizeof(*ret->list)),
				 .groups = calloc(ORPHANS_MAX, sizeof(*ret->groups)) };
	if (mounts == NULL || ret->list == NULL || ret->groups == NULL) {
		free(mounts);
		orphans_release(ret);
		return err_set(e, ERR_SYSTEM, "out of memory");
	}
	n = orphans_find_mounts(mounts);
	for (unsigned known_only = 0; known_only < 2; known_only++)
		for (size_t i = 0; i < n && (known_only == 0 || ret->n > 0); i++)
			orphans_walk(&s, mounts[i], 0, PLACE_ANY, known_only != 0);
	free(mounts);
	orphans_find_by_process(ret);
	return 0;
}

void orphans_release(struct orphans *o)
{
	for (size_t i = 0; i < o->n; i++)
		for (unsigned j = 0; j < o->list[i].ndirs; j++)
			free(o->list[i].dirs[j]);
	for (size_t i = 0; o->groups != NULL && i < o->ngroups; i++)
		free(o->groups[i]);
	free(o->list);
	free(o->groups);
	*o = (struct orphans){ 0 };
}
