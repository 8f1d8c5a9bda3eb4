#include "cursor.h"

#include <stdio.h>
#include <string.h>

#include "hex.h"
#include "units.h"

/* "milliseconds id" in hexadecimal digits, so that clients treat it as opaque. */
#define KEY_MAX (CURSOR_MAX / 2)

void cursor_write(struct json *j, const char *name, uint64_t ms, const char *id)
{
	char key[KEY_MAX], text[2 * KEY_MAX + 1];
	int n = snprintf(key, sizeof(key), "%llu %s", (unsigned long long)ms, id);

	hex_encode(key, (size_t)n, text);
	json_text(j, name, text);
}

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
	(void)snprintf(ret_id, STORE_ID_MAX, "%s", id);
	return 0;
}
