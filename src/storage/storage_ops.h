/* storage_ops.h - the operations of cordon-storage. Each runs in a process of its own, the runner
 * (main.c), with the rights of cordon-storage in its jail and may take as long as the request's
 * deadline allows. Code that reads bytes or names of others runs in a worker, a child of the runner
 * that can reach one directory only (layer_make.h, op_content.c).
 *
 * A new operation: a row in lib/wire/storage_msg.c, a row in storage_ops.c, a file op_<name>.c. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/storage_msg.h"
#include "storage/storage_jail.h"

#define STORAGE_LAYERS STORAGE_JAIL_TOP "/layers"
#define STORAGE_DISKS STORAGE_JAIL_TOP "/disks"
#define STORAGE_VOLUMES STORAGE_JAIL_TOP "/volumes"
#define STORAGE_UPLOADS STORAGE_JAIL_TOP "/uploads"
/* Names of files being made and being removed, with the job's serial number. */
#define STORAGE_NEW ".new-"
#define STORAGE_GONE ".gone-"

struct storage_run {
	const union storage_request *r;
	const int *fds;		     /* borrowed: of the request */
	uint64_t serial;	     /* of this job, unique while the program runs */
	struct storage_reply *reply; /* the result, all zeros before */
	int fd;			     /* owned by the caller: to be sent along with the answer. -1 */
};

typedef int storage_op_fn(struct storage_run *run, struct err *e);

/* By operation. NULL where there is none. */
storage_op_fn *storage_ops_find(uint32_t op);

storage_op_fn op_unpack, op_remove, op_list, op_fold, op_arrange, op_survey, op_files;
storage_op_fn op_root_make, op_root_open, op_memory_save, op_memory_load, op_memory_copy;
storage_op_fn op_disk_make, op_disk_check, op_disk_remove, op_disk_list;
storage_op_fn op_volume_make, op_volume_remove, op_volume_usage, op_content, op_spool, op_sizes;

/* Called once, at the start: makes the folders, and removes what earlier processes left half made
 * or half removed. */
int storage_ops_setup(struct err *e) MUST_USE;

/* op_arrange.c: reads the certificate that images shall trust. Once, at the start. fd is borrowed
 * and need not be open. */
int op_arrange_setup(int fd, struct err *e) MUST_USE;

/* Remove the remains of the job with this serial number, because it was killed. */
void storage_ops_clean(uint64_t serial);

/* Open the folder of layers. The caller owns it. */
int storage_ops_open_layers(struct err *e) MUST_USE;

/* As above, for volumes. */
int storage_ops_open_volumes(struct err *e) MUST_USE;

/* For errors of system calls on files of the storage folder: REASON_STORAGE_FULL if there is no
 * room, else as err_sys(). */
int storage_ops_fail(struct err *e, const char *what) MUST_USE;

/* ---- the base of layers: nothing, the places of the host template, or a directory of template_dir
 */

/* Open its places. base: the name of struct storage_fold. The caller owns them. -1: there is no
 * such place. */
int storage_base_open(uint32_t flags, const char *base, int ret[STORAGE_HOST_MAX],
		      struct err *e) MUST_USE;
