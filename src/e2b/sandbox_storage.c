#include "sandbox_storage.h"

#include <string.h>

#include "units.h"

#define BYTES_MAX ((uint64_t)1 << 50)
#define KEEP_MAX_MS ((uint64_t)3650 * 86400000)

/* One of two words; absent: ret is left as it is. */
static int choice(const json_t *metadata, const char *key, const char *no, const char *yes,
		  bool *ret, bool *ret_given, struct err *e)
{
	const char *text = json_string_value(json_object_get(metadata, key));

	*ret_given = text != NULL;
	if (text == NULL)
		return 0;
	*ret = strcmp(text, yes) == 0;
	if (!*ret && strcmp(text, no) != 0)
		return err_set(e, ERR_INVALID, "metadata %s: must be %s or %s", key, no, yes);
	return 0;
}

int sandbox_storage_read(const json_t *metadata, struct session_spec *ret, struct err *e)
{
	const char *disk = json_string_value(json_object_get(metadata, "cordon.disk"));
	const char *keep = json_string_value(json_object_get(metadata, "cordon.keep"));
	bool on_disk = false, given;

	if (choice(metadata, "cordon.storage", "memory", "disk", &on_disk, &ret->storage_given, e) <
		    0 ||
	    choice(metadata, "cordon.root", "writable", "read-only", &ret->read_only, &given, e) <
		    0 ||
	    choice(metadata, "cordon.persist", "false", "true", &ret->persist, &given, e) < 0)
		return -1;
	ret->level = json_string_value(json_object_get(metadata, "cordon.level"));
	ret->storage = on_disk ? SESSION_DISK : SESSION_MEMORY;
	if (disk != NULL && units_bytes(disk, 1, BYTES_MAX, &ret->limits.disk_bytes, e) < 0)
		return err_wrap(e, "metadata cordon.disk");
	if (keep != NULL && units_time_ms(keep, 1000, KEEP_MAX_MS, &ret->keep_ms, e) < 0)
		return err_wrap(e, "metadata cordon.keep");
	return 0;
}
