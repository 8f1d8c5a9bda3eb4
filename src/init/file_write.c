/* file_write.c - the built-in write: copies its input to a file, and decompresses gzip. */
#include <string.h>

#include "builtin_io.h"
#include "builtin_table.h"
#include "file_names.h"
#include "file_put.h"
#include "units.h"

struct source {
	uint64_t max;
	bool gzip;
};

static int parse_flags(const char *text, struct file_put *r, bool *ret_gzip, struct err *e)
{
	for (const char *p = strcmp(text, "-") == 0 ? "" : text; *p != '\0'; p++) {
		if (strchr("paxz", *p) == NULL)
			return err_set(e, ERR_INVALID, "write: unknown flag in '%s'", text);
		r->parents |= *p == 'p';
		r->append |= *p == 'a';
		r->exclusive |= *p == 'x';
		*ret_gzip |= *p == 'z';
	}
	return 0;
}

static int parse(char **argv, struct file_put *r, struct source *s, struct err *e)
{
	if (builtin_io_mode(argv[1], &r->mode, e) < 0 || parse_flags(argv[3], r, &s->gzip, e) < 0)
		return -1;
	if (strcmp(argv[2], "-") != 0 && !file_names_owner(argv[2], &r->uid, &r->gid))
		return err_set(e, ERR_NOT_FOUND, "no such user or group: %s", argv[2]);
	return units_count(argv[4], 0, INT64_MAX, &s->max, e);
}

static int fill(struct file_stage *stage, void *arg, struct err *e)
{
	const struct source *s = arg;

	return file_stage_fill(stage, s->max, s->gzip, e);
}

int file_write(int argc, char **argv, struct err *e)
{
	static struct file_xattr meta;
	struct file_put r = file_put_for_user(argv[0]);
	FILE_PLACE p = FILE_PLACE_NONE;
	struct source s = { 0 };
	int existed;

	if (parse(argv, &r, &s, e) < 0)
		return -1;
	if (argc > 5 && file_xattr_parse(argv[5], &meta, e) < 0)
		return -1;
	if (argc > 5)
		r.meta = &meta;
	existed = file_put(&r, fill, &s, &p, e);
	return existed < 0 ? -1 : file_put_send_entry(&r, &p, existed, e);
}
