/* err_sanitize.c - makes errors of another process printable. Apart from err.c, because it needs
 * utf8.c, which the keeper does not link. */
#include <stdint.h>
#include <string.h>

#include "err.h"
#include "utf8.h"

void err_sanitize(struct err *e)
{
	size_t left;

	if ((unsigned)e->code >= ERR_CODES || e->code == ERR_NONE)
		e->code = ERR_SYSTEM;
	if ((unsigned)e->reason >= REASONS)
		e->reason = REASON_NONE;
	e->msg[sizeof(e->msg) - 1] = '\0';
	left = strlen(e->msg);
	for (char *c = e->msg; left > 0;) {
		size_t n = utf8_length((const uint8_t *)c, left);

		if (n == 0 || utf8_is_control((const uint8_t *)c, n)) {
			n = n == 0 ? 1 : n;
			memset(c, '?', n);
		}
		c += n;
		left -= n;
	}
}
