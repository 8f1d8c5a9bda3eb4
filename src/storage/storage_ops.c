/* storage_ops.c - the table of operations, and their common functions. See storage_ops.h. */
#include "storage/storage_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "storage/storage_jail.h"
#include "storage/tree_remove.h"

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
	[STORAGE_ROOT_MAKE] = op_root_make,
	[STORAGE_ROOT_OPEN] = op_root_open,
	[STORAGE_MEMORY_SAVE] = op_memory_save,
	[STORAGE_MEMORY_LOAD] = op_memory_load,
	[STORAGE_MEMORY_COPY] = op_memory_copy,
	[STORAGE_SIZES] = op_sizes,
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

static bool ops_is_leftover(const char *name)
{
	return strncmp(name, STORAGE_NEW, strlen(STORAGE_NEW)) == 0 ||
	       strncmp(name, STORAGE_GONE, strlen(STORAGE_GONE)) == 0;
}

/* A leftover that stays takes room, and the next start tries again. */
static void ops_remove_leftover(int folder, const char *name)
{
	struct err e = { 0 };

	if (tree_remove(folder, name, &e) < 0)
		log_warn("a leftover cannot be removed", "name=%s error=%s", name, e.msg);
}

/* Make the folder if need be, and remove half made and half removed files. */
static int ops_set_up(const char *path, struct err *e)
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
		if (ops_is_leftover(entry->d_name))
			ops_remove_leftover(folder, entry->d_name);
	(void)closedir(d);
	return 0;
}

static const char *const folders[] = { STORAGE_LAYERS, STORAGE_DISKS, STORAGE_VOLUMES,
				       STORAGE_UPLOADS };

int storage_ops_setup(struct err *e)
{
	for (size_t i = 0; i < COUNT(folders); i++)
		if (ops_set_up(folders[i], e) < 0)
			return -1;
	return 0;
}

static void ops_clean(const char *path, uint64_t serial)
{
	static const char *const kinds[] = { STORAGE_NEW, STORAGE_GONE };
	OWN_FD folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char name[64];

	for (size_t i = 0; i < COUNT(kinds) && folder >= 0; i++) {
		(void)snprintf(name, sizeof(name), "%s%llu", kinds[i], (unsigned long long)serial);
		ops_remove_leftover(folder, name);
	}
}

void storage_ops_clean(uint64_t serial)
{
	for (size_t i = 0; i < COUNT(folders); i++)
		ops_clean(folders[i], serial);
}

/* ---- operations on layers */

/* List the ids of all layers. Entries with other names are not layers. */
int op_list(struct storage_run *run, struct err *e)
{
	int layers = storage_ops_open_layers(e), result = 0;
	DIR *d = layers < 0 ? NULL : fdopendir(layers);

	if (d == NULL)
		return layers < 0 ? -1 : err_sys(e, "list the layers");
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		if (storage_msg_is_id(entry->d_name, STORAGE_ID_MAX))
			result = io_write_all(run->fds[0], entry->d_name, strlen(entry->d_name) + 1,
					      e);
	(void)closedir(d);
	return result;
}

/* The layer loses its name first. If this process is killed, storage_ops_clean() or the next start
 * removes the rest. */
int op_remove(struct storage_run *run, struct err *e)
{
	OWN_FD layers = storage_ops_open_layers(e);
	char gone[64];

	if (layers < 0)
		return -1;
	/* The transaction after which nothing uses the layer comes to disk before its end. */
	if (syncfs(layers) < 0)
		return storage_ops_fail(e, "write to disk");
	(void)snprintf(gone, sizeof(gone), STORAGE_GONE "%llu", (unsigned long long)run->serial);
	if (renameat(layers, run->r->remove.layer, layers, gone) < 0)
		return errno == ENOENT ? 0 : storage_ops_fail(e, "rename the layer");
	return tree_remove(layers, gone, e);
}

/* ---- the base of layers */

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

int storage_base_open(uint32_t flags, const char *base, int ret[STORAGE_HOST_MAX], struct err *e)
{
	char path[sizeof(STORAGE_JAIL_TEMPLATES) + STORAGE_BASE_MAX + 1];

	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++)
		ret[i] = -1;
	for (unsigned i = 0; flags == STORAGE_FOLD_HOST && i < STORAGE_HOST_MAX; i++) {
		(void)snprintf(path, sizeof(path), STORAGE_JAIL_HOST "%u/%s", i,
			       i == 0 ? base : "");
		ret[i] = open(path, DIR_FLAGS | O_CLOEXEC);
	}
	if (flags == STORAGE_FOLD_DIR) {
		(void)snprintf(path, sizeof(path), STORAGE_JAIL_TEMPLATES "/%s", base);
		ret[0] = open(path, DIR_FLAGS | O_CLOEXEC);
	}
	if (flags != STORAGE_FOLD_BOTTOM && ret[0] < 0)
		return err_sys(e, "open what is below the layers");
	return 0;
}
