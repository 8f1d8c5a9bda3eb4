#include "read_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"

#define PIECE 16384

char *read_file(int fd, size_t max)
{
	struct buf b = BUF_INIT(max + PIECE);
	struct err e;
	ssize_t n = 1;

	b.secret = true; /* it may be the key of the egress CA */
	while (n > 0 && b.len <= max) {
		uint8_t *to = buf_reserve(&b, PIECE, &e);

		n = to == NULL ? -1 : pread(fd, to, PIECE, (off_t)b.len);
		if (n > 0)
			buf_commit(&b, (size_t)n);
	}
	if (n != 0 || b.len > max || (b.len > 0 && memchr(b.data, '\0', b.len) != NULL)) {
		buf_release(&b);
		return NULL;
	}
	char *text = strdup(buf_text(&b));

	buf_release(&b);
	return text;
}
