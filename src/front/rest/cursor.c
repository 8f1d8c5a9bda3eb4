#include "front/rest/cursor.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/str.h"
#include "lib/base/units.h"

/* "milliseconds id" in hexadecimal digits, so that clients treat it as opaque. */
#define KEY_MAX (CURSOR_MAX / 2)

/* Raised if the lists or their order change, so that old cursors are refused. */
#define PLACES_FORM '1'

void cursor_write_places(const uint64_t *places, unsigned n, char ret[CURSOR_PLACES_TEXT])
{
	size_t at = (size_t)snprintf(ret, CURSOR_PLACES_TEXT, "%c", PLACES_FORM);

	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(ret + at, CURSOR_PLACES_TEXT - at, "%c%llx",
				       i == 0 ? '-' : '.', (unsigned long long)places[i]);
}

/* -1: no digit. Upper case is refused, because cursor_write_places() never writes it. */
static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One number as it is written: no leading zeros. False: it is none. */
static bool take_place(const char **at, uint64_t *ret)
{
	const char *begin = *at;

	*ret = 0;
	while (hex_value(**at) >= 0) {
		if (*ret > INT64_MAX >> 4)
			return false;
		*ret = *ret << 4 | (uint64_t)hex_value(*(*at)++);
	}
	return *at != begin && (begin[0] != '0' || *at == begin + 1);
}

/* *ret_places are all 0 for "0". */
int cursor_parse_places(const char *text, uint64_t *ret_places, unsigned n, struct err *e)
{
	bool good = text[0] == PLACES_FORM;
	const char *at = text + good;

	memset(ret_places, 0, n * sizeof(*ret_places));
	if (strcmp(text, "0") == 0)
		return 0;
	for (unsigned i = 0; good && i < n; i++)
		good = *at++ == (i == 0 ? '-' : '.') && take_place(&at, &ret_places[i]);
	if (!good || *at != '\0')
		return err_set(e, ERR_INVALID, "parameter after: not a cursor from this server");
	return 0;
}

/* Bounds: ms has at most 20 digits, id fewer than STORE_ID_MAX bytes. */
void cursor_write(struct json *j, const char *name, uint64_t ms, const char *id)
{
	char key[KEY_MAX], text[2 * KEY_MAX + 1];
	int n = snprintf(key, sizeof(key), "%llu %s", (unsigned long long)ms, id);

	hex_encode(key, (size_t)n, text);
	json_text(j, name, text);
}

/* The id may only have characters that ids have. */
int cursor_parse(const char *cursor, uint64_t *ret_ms, char ret_id[STORE_ID_MAX], struct err *e)
{
	size_t n = strlen(cursor) / 2;
	char key[KEY_MAX], *id;
	uint64_t ms;

	if (n >= sizeof(key) || hex_decode(cursor, strlen(cursor), key, n, e) < 0)
		return err_set(e, ERR_INVALID, "parameter after: not a cursor from this server");
	key[n] = '\0';
	id = strchr(key, ' ');
	if (id == NULL || strlen(key) != n)
		return err_set(e, ERR_INVALID, "parameter after: not a cursor from this server");
	*id++ = '\0';
	if (units_count(key, 0, INT64_MAX, &ms, e) < 0 || *id == '\0' ||
	    strlen(id) >= STORE_ID_MAX ||
	    id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0')
		return err_set(e, ERR_INVALID, "parameter after: not a cursor from this server");
	*ret_ms = ms;
	str_copy_to(ret_id, STORE_ID_MAX, id);
	return 0;
}
