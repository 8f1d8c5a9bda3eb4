#include "secret_table.h"

#include <stdbool.h>
#include <string.h>

#include "codec.h"

#define NAME_MAX_ 64
#define FILE_MAX_ 256
#define PATH_MAX_ 4096

/* One path component that does not begin with a dot. */
static bool is_plain(const char *s)
{
	return *s != '\0' && *s != '.' && strchr(s, '/') == NULL;
}

static int read_one(struct codec_reader *r, struct secret_table_entry *t, struct err *e)
{
	t->kind = (char)codec_get(r, 1);
	t->name = codec_get_string(r, NAME_MAX_);
	t->place = codec_get_string(r, t->kind == 'f' ? FILE_MAX_ : PATH_MAX_);
	t->owner = codec_get_string(r, NAME_MAX_);
	t->mode = (uint32_t)codec_get(r, 4);
	t->len = (uint32_t)codec_get(r, 4);
	if (r->bad || r->n < t->len || (t->kind != 'f' && t->kind != 's') || !is_plain(t->name))
		return err_set(e, ERR_INVALID, "secrets: the table is malformed");
	t->value = r->p;
	r->p += t->len;
	r->n -= t->len;
	if ((t->mode & ~0777U) != 0 || (t->kind == 'f' ? !is_plain(t->place) : t->place[0] != '/'))
		return err_set(e, ERR_INVALID, "secret %s: invalid file name, program or mode",
			       t->name);
	return 0;
}

int secret_table_read(const uint8_t *bytes, size_t len, struct secret_table *ret, struct err *e)
{
	struct codec_reader r = { .p = bytes, .n = len };

	for (ret->n = 0; r.n > 0; ret->n++) {
		if (ret->n == SECRET_TABLE_MAX)
			return err_set(e, ERR_LIMIT, "more than %d secrets", SECRET_TABLE_MAX);
		if (read_one(&r, &ret->at[ret->n], e) < 0)
			return -1;
	}
	return 0;
}
