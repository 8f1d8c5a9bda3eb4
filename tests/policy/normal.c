/* normal.c - our normal forms, for differential.py: lines "h HEX" (a host) or "p HEX" (a path) in,
 * one line each out: the normal form in hex, or "-" if it is refused. */
#include <stdio.h>
#include <string.h>

#include "lib/policy/host.h"
#include "lib/policy/path.h"

#define LINE_MAX_BYTES (2 * HTTP1_TARGET_MAX + 8)

static size_t unhex(const char *text, char *ret)
{
	size_t n = 0;

	while (http1_hex(text[2 * n]) >= 0 && http1_hex(text[2 * n + 1]) >= 0) {
		ret[n] = (char)(http1_hex(text[2 * n]) * 16 + http1_hex(text[2 * n + 1]));
		n++;
	}
	return n;
}

int main(void)
{
	static char line[LINE_MAX_BYTES], raw[LINE_MAX_BYTES], out[PATH_NORMAL_MAX];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		size_t n = strlen(line) > 2 ? unhex(line + 2, raw) : 0;
		const char *why = NULL;
		int result = line[0] == 'h' ? host_normal(raw, n, out)
					    : path_normal((struct http1_span){ raw, n }, out,
							  sizeof(out), &why);

		if (result < 0) {
			puts("-");
			continue;
		}
		for (const char *p = out; *p != '\0'; p++)
			printf("%02x", (unsigned)(unsigned char)*p);
		putchar('\n');
	}
	return 0;
}
