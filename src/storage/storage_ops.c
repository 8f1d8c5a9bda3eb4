/* storage_ops.c - the table of operations, and what they share. See storage_ops.h. */
#include "storage_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "tree_remove.h"

static int op_look(struct storage_run *run, struct err *e)
{
	(void)run;
	(void)e;
	return 0; /* storage_jobs.c adds what is asked for */
}

static storage_op_fn *const ops[STORAGE_OPS] = {
	[STORAGE_UNPACK] = op_unpack,
	[STORAGE_ARRANGE] = op_arrange,
	[STORAGE_SURVEY] = op_survey,
	[STORAGE_FILES] = op_files,
	[STORAGE_FOLD] = op_fold,
	[STORAGE_REMOVE] = op_remove,
	[STORAGE_LIST] = op_list,
	[STORAGE_DISK_MAKE] = op_disk_make,
	[STORAGE_DISK_CHECK] = op_disk_check,
	[STORAGE_DISK_REMOVE] = op_disk_remove,
	[STORAGE_DISK_LIST] = op_disk_list,
	[STORAGE_VOLUME_MAKE] = op_volume_make,
	[STORAGE_VOLUME_REMOVE] = op_volume_remove,
	[STORAGE_VOLUME_USAGE] = op_volume_usage,
	[STORAGE_CONTENT] = op_content,
	[STORAGE_SPOOL] = op_spool,
	[STORAGE_LOOK] = op_look,
	[STORAGE_ROOT_MAKE] = op_root_make,
	[STORAGE_ROOT_OPEN] = op_root_open,
	[STORAGE_MEMORY_SAVE] = op_memory_save,
	[STORAGE_MEMORY_LOAD] = op_memory_load,
	[STORAGE_MEMORY_COPY] = op_memory_copy,
};

storage_op_fn *storage_ops_find(uint32_t op)
{
	return op < STORAGE_OPS ? ops[op] : NULL;
}

int storage_ops_open_layers(struct err *e)
{
	int fd = open(STORAGE_LAYERS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open the folder of layers") : fd;
}

int storage_ops_open_volumes(struct err *e)
{
	int fd = open(STORAGE_VOLUMES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open the folder of volumes") : fd;
}

int storage_ops_fail(struct err *e, const char *what)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_set_reason(e, REASON_STORAGE_FULL, "the storage folder is full (%s)",
				      what);
	return err_sys(e, "%s", what);
}

static bool is_leftover(const char *name)
{
	return strncmp(name, STORAGE_NEW, strlen(STORAGE_NEW)) == 0 ||
	       strncmp(name, STORAGE_GONE, strlen(STORAGE_GONE)) == 0;
}

static void remove_leftover(int folder, const char *name)
{
	struct err e = { 0 };

	if (tree_remove(folder, name, &e) < 0)
		log_warn("a leftover cannot be removed", "name=%s error=%s", name, e.msg);
}

/* Makes the folder if need be, and removes what was left half made or half removed. */
static int set_up(const char *path, struct err *e)
{
	int folder;
	DIR *d;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", path);
	folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = folder < 0 ? NULL : fdopendir(folder);
	if (d == NULL)
		return err_sys(e, "list %s", path);
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		if (is_leftover(entry->d_name))
			remove_leftover(folder, entry->d_name);
	(void)closedir(d);
	return 0;
}

static const char *const folders[] = { STORAGE_LAYERS, STORAGE_DISKS, STORAGE_VOLUMES,
				       STORAGE_UPLOADS };

int storage_ops_setup(struct err *e)
{
	for (size_t i = 0; i < COUNT(folders); i++)
		if (set_up(folders[i], e) < 0)
			return -1;
	return 0;
}

static void clean(const char *path, uint64_t serial)
{
	static const char *const kinds[] = { STORAGE_NEW, STORAGE_GONE };
	OWN_FD folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char name[64];

	for (size_t i = 0; i < COUNT(kinds) && folder >= 0; i++) {
		(void)snprintf(name, sizeof(name), "%s%llu", kinds[i], (unsigned long long)serial);
		remove_leftover(folder, name);
	}
}

void storage_ops_clean(uint64_t serial)
{
	for (size_t i = 0; i < COUNT(folders); i++)
		clean(folders[i], serial);
}
