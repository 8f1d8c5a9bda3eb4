/* dns_msg_name.c - names on the wire. */
#include "dns_msg_name.h"

#include <string.h>

#define WIRE_MAX 255
#define JUMPS_MAX 127 /* the most labels of a name; a chain of pointers costs no bytes of it */

static char *put_byte(char *to, uint8_t c)
{
	if (c > ' ' && c < 127 && c != '.' && c != '\\') {
		*to++ = (char)c;
		return to;
	}
	*to++ = '\\';
	*to++ = (char)('0' + c / 100);
	*to++ = (char)('0' + c / 10 % 10);
	*to++ = (char)('0' + c % 10);
	return to;
}

int dns_msg_name_read(const uint8_t *msg, size_t len, size_t *at, bool compressed,
		      char ret[DNS_MSG_NAME_MAX])
{
	size_t here = *at, lowest = here, end = 0, wire = 0, jumps = 0;
	char *to = ret;

	for (;;) {
		uint8_t n;

		if (here >= len)
			return -1;
		n = msg[here];
		if (n >= 0xC0) {
			size_t target;

			if (!compressed || len - here < 2 || ++jumps > JUMPS_MAX)
				return -1;
			target = (size_t)(n & 0x3F) << 8 | msg[here + 1];
			if (target < DNS_MSG_HEAD || target >= lowest)
				return -1;
			if (end == 0)
				end = here + 2;
			here = lowest = target;
			continue;
		}
		if (n > 63 || len - here - 1 < n)
			return -1;
		wire += 1U + n;
		if (wire > WIRE_MAX)
			return -1;
		here++;
		if (n == 0)
			break;
		if (to != ret)
			*to++ = '.';
		for (size_t i = 0; i < n; i++)
			to = put_byte(to, msg[here + i]);
		here += n;
	}
	*to = '\0';
	*at = end > 0 ? end : here;
	return 0;
}
