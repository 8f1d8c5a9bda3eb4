#include "daemon/disk/disk_calls.h"

#include "lib/base/str.h"

#define MAKE_MS 60000
#define CHECK_MS 600000 /* e2fsck of a large disk not unmounted */
#define QUICK_MS 120000

static void disk_calls_ask(struct storage_link *s, struct storage_job *j, enum storage_op op,
			   uint32_t ms, const char *id, struct storage_disk r)
{
	r.head.op = op;
	r.head.deadline_ms = ms;
	str_copy(r.id, id);
	storage_link_ask(s, j, &r, sizeof(r), NULL, 0);
}

void disk_call_make(struct storage_link *s, struct storage_job *j, const char *id, uint64_t bytes,
		    uint64_t inodes, bool sync)
{
	disk_calls_ask(s, j, STORAGE_DISK_MAKE, MAKE_MS, id,
		       (struct storage_disk){ .flags = sync ? STORAGE_DISK_SYNC : 0,
					      .bytes = bytes,
					      .inodes = inodes });
}

void disk_call_check(struct storage_link *s, struct storage_job *j, const char *id)
{
	disk_calls_ask(s, j, STORAGE_DISK_CHECK, CHECK_MS, id, (struct storage_disk){ 0 });
}

void disk_call_remove(struct storage_link *s, struct storage_job *j, const char *id)
{
	disk_calls_ask(s, j, STORAGE_DISK_REMOVE, QUICK_MS, id, (struct storage_disk){ 0 });
}

void disk_call_list(struct storage_link *s, struct storage_job *j, int fd)
{
	struct storage_list r = { .head = { .op = STORAGE_DISK_LIST, .deadline_ms = QUICK_MS } };

	storage_link_ask(s, j, &r, sizeof(r), &fd, 1);
}
