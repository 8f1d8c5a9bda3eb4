/* progress.c - see progress.h. Callers add bytes as they move and end the line before they print
 * anything else. On anything but a terminal all functions only count. */
#include "cmd/client/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cmd/client/show.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"

/* A short transfer prints nothing. */
#define FIRST_MS 700
#define EACH_MS 100

/* The clock starts here. Without a terminal on stderr nothing is ever printed, and no clock is
 * read later. */
void progress_init(struct progress *p, const char *name, uint64_t total)
{
	*p = (struct progress){ .name = name, .total = total, .start_ns = clock_now_ns() };
	p->next_ns = p->start_ns + FIRST_MS * CLOCK_MS;
	p->wanted = isatty(STDERR_FILENO) == 1;
}

/* Without a known length there is no percentage. More bytes than announced count as an unknown
 * length. */
void progress_format(const struct progress *p, uint64_t elapsed_ms, char *ret, size_t cap)
{
	uint64_t rate = p->done * 1000 / (elapsed_ms == 0 ? 1 : elapsed_ms);
	char done[24], total[24], each[24], left[24];

	units_format_bytes(p->done, done, sizeof(done));
	units_format_bytes(p->total, total, sizeof(total));
	units_format_bytes(rate, each, sizeof(each));
	if (p->total == UINT64_MAX || p->total == 0 || p->done > p->total || rate == 0) {
		(void)snprintf(ret, cap, "%s, %s/s", done, each);
		return;
	}
	show_span((int64_t)((p->total - p->done) / rate * 1000), left, sizeof(left));
	(void)snprintf(ret, cap, "%s of %s (%u%%), %s/s, %s left", done, total,
		       (unsigned)((double)p->done * 100 / (double)p->total), each, left);
}

/* Called for each piece. The line is drawn again ten times a second at most. */
void progress_add(struct progress *p, size_t bytes)
{
	uint64_t now;
	char name[48], text[160];

	p->done += bytes;
	now = p->wanted ? clock_now_ns() : 0;
	if (now < p->next_ns)
		return;
	p->next_ns = now + EACH_MS * CLOCK_MS;
	p->shown = true;
	progress_format(p, (now - p->start_ns) / CLOCK_MS, text, sizeof(text));
	(void)show_escape(p->name, name, sizeof(name));
	(void)fprintf(stderr, "\r\033[K%s: %s", name, text);
	(void)fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		(void)fputs("\r\033[K", stderr);
	p->shown = false;
}
