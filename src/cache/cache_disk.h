/* cache_disk.h - the files of cordon-cache, in the one folder it may use:
 *
 *	objects/AB/REST  bytes whose SHA-256 is the name
 *	views/AB/REST    view_file.h; the name is view_name()
 *	tmp/N            files being written; removed at the next start
 *	seen             seen_table.h
 *
 * A file comes into objects or views by a rename, when it is complete. An object only after the
 * disk has it (the caller's fdatasync), so that no crash leaves one with other bytes than its name
 * says. A view that a crash tore is recognised by its checksum. The time of use of an object is its
 * modification time, rounded to the hour. Calls block for as long as the disk does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cache/view_file.h"
#include "lib/base/err.h"

#define CACHE_DISK_NAME_MAX 80
#define CACHE_HOUR_MS 3600000ULL

enum cache_kind { CACHE_OBJECTS, CACHE_VIEWS, CACHE_KINDS };

struct cache_disk {
	int dir; /* borrowed: the folder */
	uint32_t last_tmp;
	unsigned reserve; /* percent of the file system that stay free */
};

/* Make the folders. */
int cache_disk_open(struct cache_disk *d, int dir, unsigned reserve, struct err *e) MUST_USE;
/* "objects/ab", for reading it. */
void cache_disk_folder(enum cache_kind kind, unsigned number, char ret[CACHE_DISK_NAME_MAX]);

/* A new file for writing. Its name goes to ret. Return the descriptor. */
int cache_disk_create(struct cache_disk *d, char ret_tmp[CACHE_DISK_NAME_MAX],
		      struct err *e) MUST_USE;
void cache_disk_discard(struct cache_disk *d, const char *tmp);
/* Give a complete file its name. An older one of that name is replaced. */
int cache_disk_keep(struct cache_disk *d, const char *tmp, enum cache_kind kind,
		    const uint8_t name[32], struct err *e) MUST_USE;
void cache_disk_remove(struct cache_disk *d, enum cache_kind kind, const uint8_t name[32]);
/* Read-only. -1 and errno. */
int cache_disk_object(struct cache_disk *d, const uint8_t sha256[32]);
void cache_disk_use(struct cache_disk *d, const uint8_t sha256[32], uint64_t used_ms);

/* Write and name a view. */
int cache_disk_put_view(struct cache_disk *d, const uint8_t name[32], const struct view *v,
			struct err *e) MUST_USE;
/* Strings point into bytes. False: there is none, or it is torn, or of another name. */
bool cache_disk_get_view(struct cache_disk *d, const uint8_t name[32], uint8_t bytes[VIEW_FILE_MAX],
			 struct view *ret);

/* How many bytes must be freed so that n more leave the reserve free. 0: none. */
uint64_t cache_disk_missing(const struct cache_disk *d, uint64_t n);
