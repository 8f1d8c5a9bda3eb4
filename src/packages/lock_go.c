/* lock_go.c - go.sum: "MODULE VERSION h1:BASE64" for the zip of a module, and "VERSION/go.mod" for
 * its go.mod alone, which does not allow the zip. */
#include <string.h>

#include "lock_out.h"

static int read_sum(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	static const char mod[] = "/go.mod";
	const char *space = memchr(p, ' ', n);
	const char *next =
		space == NULL ? NULL : memchr(space + 1, ' ', n - (size_t)(space + 1 - p));
	size_t version;

	if (next == NULL)
		return lock_fail(o, line, "a line has a module, a version and a hash");
	version = (size_t)(next - space - 1);
	if (lock_begin(o, ECO_GO, line) < 0 || lock_name(o, line, p, (size_t)(space - p)) < 0)
		return -1;
	if (version > sizeof(mod) && memcmp(next - 7, mod, 7) == 0) {
		if (version >= sizeof(o->version) ||
		    lock_version(o, line, space + 1, version - 7) < 0)
			return lock_fail(o, line, "this is not a version");
		memcpy(o->version + version - 7, mod, sizeof(mod));
	} else if (lock_version(o, line, space + 1, version) < 0) {
		return -1;
	}
	return lock_digest(o, line, next + 1, n - (size_t)(next + 1 - p));
}

int lock_read_go(struct lock_out *o, const char *text, size_t len)
{
	struct lock_lines l = { .at = text, .end = text + len };

	while (lock_next_line(&l))
		if (l.n > 0 && read_sum(o, l.line, l.p, l.n) < 0)
			return -1;
	return 0;
}
