/* disk_calls.h - requests to cordon-storage about the disks of sessions. See storage_link.h for
 * jobs and storage_msg.h for the operations. Called by daemon/session/session_disk.c. */
#pragma once

#include "daemon/disk/storage_link.h"

void disk_call_make(struct storage_link *s, struct storage_job *j, const char *id, uint64_t bytes,
		    uint64_t inodes, bool sync);
void disk_call_check(struct storage_link *s, struct storage_job *j, const char *id);
void disk_call_remove(struct storage_link *s, struct storage_job *j, const char *id);
/* The ids are written to fd, taken over. */
void disk_call_list(struct storage_link *s, struct storage_job *j, int fd);
