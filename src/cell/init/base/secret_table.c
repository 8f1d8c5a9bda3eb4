#include "cell/init/base/secret_table.h"

#include <stdbool.h>
#include <string.h>

#include "lib/wire/codec.h"

#define NAME_MAX_ 64
#define FILE_MAX_ 256
#define PATH_MAX_ 4096

/* One path component that does not begin with a dot. */
static bool secret_table_is_plain(const char *s)
{
	return *s != '\0' && *s != '.' && strchr(s, '/') == NULL;
}

static int secret_table_read_one(struct codec *c, struct secret_table_entry *t, struct err *e)
{
	codec_int(c, 1, t->kind);
	codec_string(c, NAME_MAX_, &t->name);
	codec_string(c, t->kind == 'f' ? FILE_MAX_ : PATH_MAX_, &t->place);
	codec_string(c, NAME_MAX_, &t->owner);
	codec_int(c, 4, t->mode);
	codec_int(c, 4, t->len);
	codec_span(c, &t->value, t->len);
	if (c->bad || (t->kind != 'f' && t->kind != 's') || !secret_table_is_plain(t->name))
		return err_set(e, ERR_INVALID, "secrets: the table is malformed");
	if ((t->mode & ~0777U) != 0 ||
	    (t->kind == 'f' ? !secret_table_is_plain(t->place) : t->place[0] != '/'))
		return err_set(e, ERR_INVALID, "secret %s: invalid file name, program or mode",
			       t->name);
	return 0;
}

int secret_table_read(const uint8_t *bytes, size_t len, struct secret_table *ret, struct err *e)
{
	struct codec c = codec_reader(bytes, len);

	for (ret->n = 0; c.n > 0; ret->n++) {
		if (ret->n == SECRET_TABLE_MAX)
			return err_set(e, ERR_LIMIT, "more than %d secrets", SECRET_TABLE_MAX);
		if (secret_table_read_one(&c, &ret->at[ret->n], e) < 0)
			return -1;
	}
	return 0;
}
