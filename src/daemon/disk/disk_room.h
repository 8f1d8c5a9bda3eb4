/* disk_room.h - the room of a file system in relation to its reserve (setting storage_reserve), and
 * the share of the reserve that one tenant may write into. Pure. Used by session_room.c.
 *
 * Requests that need room are refused once the reserve is touched. Programs that write already ask
 * nobody: disks and volumes grow, output and records are kept. For these a tenant has a limit, by
 * which it may grow from the moment at which the reserve was touched. The limit is a part of the
 * remaining room, so that many tenants together leave some of it, too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zeros: not known. */
struct disk_room {
	bool is_known;
	bool is_near;	 /* less is free than twice the reserve: growth is measured */
	bool is_touched; /* less is free than the reserve, or was until a moment ago */
	uint64_t left;	 /* bytes free */
	uint64_t reserve;
	uint64_t limit; /* of a tenant's growth while it is touched */
};

#define DISK_ROOM_SHARE 16U	     /* a tenant's: the remaining room by this */
#define DISK_ROOM_LEAST (8ULL << 20) /* journals of file systems, logs */
#define DISK_ROOM_SMALL (1ULL << 20) /* once three quarters of the reserve are used up */

/* Take the numbers of now. percent: of the file system that stay free. 0: there is no reserve. */
void disk_room_take(struct disk_room *r, uint64_t size, uint64_t left, uint64_t percent);

/* Must sessions stopped for their growth wait? Also as long as no number has come. */
static inline bool disk_room_is_missing(const struct disk_room *r)
{
	return !r->is_known || r->is_touched;
}

/* How long the next look may wait, so that no program fills the file system until then. */
unsigned disk_room_look_ms(const struct disk_room *r);
