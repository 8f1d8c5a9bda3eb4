/* lock_gem.c - Gemfile.lock: CHECKSUMS, or without them the specs of GEM, names and versions only.
 * "NAME (VERSION-PLATFORM) sha256=HEX": all platforms of a version are one pin's digests. */
#include <string.h>

#include "lock_out.h"

struct text {
	const char *p;
	size_t n;
};

static bool is(struct text t, const char *text)
{
	return t.n == strlen(text) && memcmp(t.p, text, t.n) == 0;
}

/* "sha256=HEX,sha256=HEX": each byte is looked at once, also of a line of blanks. */
static int read_digests(struct lock_out *o, unsigned line, struct text t)
{
	while (t.n > 0) {
		size_t n = 0;

		while (n < t.n && t.p[n] != ' ' && t.p[n] != ',')
			n++;
		if (n > 0 && lock_digest(o, line, t.p, n) < 0)
			return -1;
		n += n < t.n;
		t = (struct text){ t.p + n, t.n - n };
	}
	return 0;
}

/* "NAME (VERSION)" and what follows. */
static int read_spec(struct lock_out *o, unsigned line, struct text t)
{
	const char *open = memchr(t.p, ' ', t.n), *end = t.p + t.n, *close, *dash;

	if (open == NULL || end - open < 4 || open[1] != '(')
		return lock_fail(o, line, "an entry has a name and a version in brackets");
	close = memchr(open, ')', (size_t)(end - open));
	if (close == NULL)
		return lock_fail(o, line, "a bracket is not closed");
	dash = memchr(open, '-', (size_t)(close - open));
	if (lock_begin(o, ECO_GEM, line) < 0 || lock_name(o, line, t.p, (size_t)(open - t.p)) < 0 ||
	    lock_version(o, line, open + 2, (size_t)((dash == NULL ? close : dash) - open - 2)) < 0)
		return -1;
	return read_digests(o, line, (struct text){ close + 1, (size_t)(end - close - 1) });
}

int lock_read_gem(struct lock_out *o, const char *text, size_t len)
{
	struct lock_lines l = { .at = text, .end = text + len };
	bool sums = memmem(text, len, "\nCHECKSUMS\n", 11) != NULL ||
		    memmem(text, len, "\nCHECKSUMS\r\n", 12) != NULL;
	const size_t indent = sums ? 2 : 4;
	bool inside = false;

	while (lock_next_line(&l)) {
		struct text t = { l.p, l.n };
		size_t n = 0;

		while (n < t.n && t.p[n] == ' ')
			n++;
		if (n == 0 && t.n > 0)
			inside = is(t, sums ? "CHECKSUMS" : "GEM");
		else if (inside && n == indent && t.n > n &&
			 read_spec(o, l.line, (struct text){ t.p + n, t.n - n }) < 0)
			return -1;
	}
	return 0;
}
