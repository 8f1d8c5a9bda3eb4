#include "lib/wire/diff_record.h"

#include <errno.h>
#include <string.h>

int diff_record_parse(const char *text, struct diff_record *ret, struct err *e)
{
	struct diff_record c = { .kind = text[0] };
	unsigned long mode;
	char *end;

	if (text[0] == '\0' || strchr("ACDTE", text[0]) == NULL || text[1] != '\t' ||
	    text[2] < '0' || text[2] > '7')
		return err_set(e, ERR_INVALID, "malformed record of a changed file");
	mode = strtoul(text + 2, &end, 8);
	if (mode > UINT32_MAX || *end != '\t' || end[1] < '0' || end[1] > '9')
		return err_set(e, ERR_INVALID, "malformed record of a changed file");
	errno = 0;
	c.size = strtoull(end + 1, &end, 10);
	if (errno == 0 && *end == '\t' && end[1] >= '0' && end[1] <= '9')
		c.changed_ms = strtoull(end + 1, &end, 10);
	if (errno != 0 || *end != '\t' || end[1] != '/')
		return err_set(e, ERR_INVALID, "malformed record of a changed file");
	c.mode = (uint32_t)mode;
	c.path = end + 1;
	*ret = c;
	return 0;
}

const char *diff_record_kind(const struct diff_record *c)
{
	return c->kind == 'A' ? "added" : c->kind == 'C' ? "changed" : "deleted";
}
