/* entry_info.h - one file as JSON of E2B's contract. The entry comes from the cell and is
 * untrusted. All of it may be shown to the client. Pure. */
#pragma once

#include "lib/json/json.h"
#include "lib/wire/file_msg.h"

#define ENTRY_INFO_PERMISSIONS_MAX 24

/* Its path, as requested. */
const char *entry_info_path(const struct file_msg_entry *m);
/* As Go writes a FileMode: "-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx", ... */
void entry_info_permissions(const struct file_msg_entry *m, char ret[ENTRY_INFO_PERMISSIONS_MAX]);

/* EntryInfo of the filesystem service. path: absolute. */
void entry_info_shape(struct json *j, const char *name, const struct file_msg_entry *m,
		      const char *path);
/* The answer of the file interface for a written file: {"path","name","type"}, and "metadata" if it
 * has any. */
void entry_info_shape_written(struct json *j, const char *name, const struct file_msg_entry *m);
