/* session_mask.c - what is masked in a session's output and in what is recorded of it: the values
 * of its secrets and the operator's patterns, in one mask (base/mask.h). Functions are in
 * session.h. */
#include <string.h>

#include "core_private.h"
#include "log.h"
#include "session.h"

#define PATTERNS_MAX 64

/* Splits the setting redact_patterns, which config has checked, into words. */
static size_t split(char *text, const char **ret)
{
	size_t n = 0;
	char *rest = text, *word;

	while (n < PATTERNS_MAX && (word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			ret[n++] = word;
	return n;
}

static struct mask *make(const struct core *c, const char *const *values, const size_t *lens,
			 size_t n, struct err *e)
{
	const char *patterns[PATTERNS_MAX];
	char text[sizeof(c->o.config->redact_patterns)];
	size_t npatterns;

	memcpy(text, c->o.config->redact_patterns, sizeof(text));
	npatterns = split(text, patterns);
	return mask_new(values, lens, n, patterns, npatterns, e);
}

int session_mask_setup(struct core *c, struct err *e)
{
	if (c->o.config->redact_patterns[0] == '\0')
		return 0;
	c->mask = make(c, NULL, NULL, 0, e);
	return c->mask == NULL ? err_wrap(e, "redact_patterns") : 0;
}

const struct mask *session_mask(const struct session *s)
{
	return s->mask != NULL ? s->mask : s->core->mask;
}

size_t *session_mask_turn(struct session *s, const struct mask *m)
{
	uint64_t now = loop_now_ns(s->core->loop);

	if (s->mask_turn.at_ns != now) {
		s->mask_turn.at_ns = now;
		s->mask_turn.left = mask_turn(m);
	}
	return &s->mask_turn.left;
}

void session_mask_covered(struct session *s, uint64_t places)
{
	uint64_t before = s->covered, step = 100;

	s->covered += places;
	while (step <= before)
		step *= 10;
	if (s->covered >= step)
		log_warn("many values of secrets masked in output", "session_id=%s covered=%llu",
			 s->row.id, (unsigned long long)s->covered);
}

struct mask *session_mask_make(const struct session *s, const char *const *values,
			       const size_t *lens, size_t n, struct err *e)
{
	return make(s->core, values, lens, n, e);
}

void session_mask_set(struct session *s, struct mask *m)
{
	if (s->mask != m)
		mask_free(s->mask);
	s->mask = m;
}

size_t session_redact_len(const struct session *s, const char *text, size_t keep)
{
	const struct mask *m = session_mask(s);
	size_t n = strnlen(text, keep), reach = m == NULL ? 0 : mask_reach(m);

	for (; reach > 0 && text[n] != '\0'; n++)
		reach -= text[n] != '\n' && text[n] != '\r';
	return n;
}

void session_redact(const struct session *s, char *text)
{
	const struct mask *m = session_mask(s);

	if (m != NULL)
		(void)mask_text(m, NULL, (uint8_t *)text, strlen(text));
}
