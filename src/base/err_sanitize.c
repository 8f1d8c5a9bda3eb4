#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "err.h"
#include "utf8.h"

/* A byte below 20, 7F, and U+0080 to U+009F (two bytes, C2 80 to C2 9F) move a terminal; so do 80
 * to 9F alone, which no UTF-8 has. */
static bool is_harmless(const uint8_t *c, size_t n)
{
	if (n == 1)
		return c[0] >= 0x20 && c[0] != 0x7f;
	return n > 1 && !(c[0] == 0xc2 && c[1] <= 0x9f);
}

void err_sanitize(struct err *e)
{
	size_t left;

	if ((unsigned)e->code >= ERR_CODES || e->code == ERR_NONE)
		e->code = ERR_SYSTEM;
	e->msg[sizeof(e->msg) - 1] = '\0';
	left = strlen(e->msg);
	for (char *c = e->msg; left > 0;) {
		size_t n = utf8_length((const uint8_t *)c, left);

		if (!is_harmless((const uint8_t *)c, n)) {
			n = n == 0 ? 1 : n;
			memset(c, '?', n);
		}
		c += n;
		left -= n;
	}
}
