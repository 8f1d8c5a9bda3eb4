/* session.c - the table of live sessions, and the functions by which other files read a session. It
 * depends on no other file about sessions. Changes are in session_create.c, session_lifecycle.c,
 * session_pause.c, session_settings.c and session_stop.c. */
#include "daemon/session/session.h"

#include <stdio.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "daemon/session/redact.h"
#include "lib/base/err_missing.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

#define PATTERNS_MAX (64 + REDACT_ALL)

struct session_wanted {
	const char *patterns[PATTERNS_MAX];
	size_t npatterns;
	unsigned names;
};

/* Split a text into words, which are patterns. */
static void session_split(char *text, struct session_wanted *w)
{
	char *rest = text, *word;

	while (w->npatterns < PATTERNS_MAX && (word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			w->patterns[w->npatterns++] = word;
}

/* redact: lines of redact.h. own: room for a copy of them. */
static void session_want_lines(const char *redact, char own[REDACT_ALL_TEXT_MAX],
			       struct session_wanted *w)
{
	char *rest = own, *line;

	(void)snprintf(own, REDACT_ALL_TEXT_MAX, "%s", redact);
	while ((line = strsep(&rest, "\n")) != NULL) {
		enum mask_name name;

		if (mask_name_read(line, &name))
			w->names |= 1U << name;
		else if (strncmp(line, REDACT_PATTERN, strlen(REDACT_PATTERN)) == 0 &&
			 w->npatterns < PATTERNS_MAX)
			w->patterns[w->npatterns++] = line + strlen(REDACT_PATTERN);
	}
}

/* What the node covers, and what these lines name. */
static struct mask *session_make(const struct core *c, const char *redact,
				 const char *const *values, const size_t *lens, size_t n,
				 struct err *e)
{
	char text[sizeof(c->o.config->redact_patterns)], own[REDACT_ALL_TEXT_MAX];
	struct session_wanted w = { .names = redact_names(c->o.config->redact) };

	memcpy(text, c->o.config->redact_patterns, sizeof(text));
	session_split(text, &w);
	session_want_lines(redact, own, &w);
	return mask_new_named(values, lens, n, w.patterns, w.npatterns, w.names, e);
}

int session_mask_setup(struct core *c, struct err *e)
{
	if (c->o.config->redact_patterns[0] == '\0' && c->o.config->redact[0] == '\0')
		return 0;
	c->mask = session_make(c, "", NULL, NULL, 0, e);
	return c->mask == NULL ? err_wrap(e, "redact_patterns") : 0;
}

int session_mask_begin(struct session *s, struct err *e)
{
	if (s->row.redact == NULL || s->row.redact[0] == '\0' || s->output.mask != NULL)
		return 0;
	s->output.mask = session_make(s->core, s->row.redact, NULL, NULL, 0, e);
	return s->output.mask == NULL ? -1 : 0;
}

/* A session without secrets has no mask of its own and shares the node's. */
const struct mask *session_mask(const struct session *s)
{
	return s->output.mask != NULL ? s->output.mask : s->core->mask;
}

bool session_redacts(const struct session *s)
{
	const struct config *config = s->core->o.config;

	return config->redact[0] != '\0' || config->redact_patterns[0] != '\0' ||
	       (s->row.redact != NULL && s->row.redact[0] != '\0');
}

/* Masking costs time in proportion to the bytes. So each session has an allowance for each turn of
 * the loop, or one session's output would delay all others. */
size_t *session_mask_turn(struct session *s, const struct mask *m)
{
	uint64_t now = loop_now_ns(s->core->loop);

	if (s->output.turn.at_ns != now) {
		s->output.turn.at_ns = now;
		s->output.turn.left = mask_turn(m);
	}
	return &s->output.turn.left;
}

void session_mask_covered(struct session *s, uint64_t places)
{
	uint64_t before = s->output.covered, step = 100;

	s->output.covered += places;
	while (step <= before)
		step *= 10;
	if (s->output.covered >= step)
		log_warn("many values masked in output", "session_id=%s covered=%llu", s->row.id,
			 (unsigned long long)s->output.covered);
}

struct mask *session_mask_make(const struct session *s, const char *const *values,
			       const size_t *lens, size_t n, struct err *e)
{
	return session_make(s->core, s->row.redact == NULL ? "" : s->row.redact, values, lens, n,
			    e);
}

void session_mask_set(struct session *s, struct mask *m)
{
	if (s->output.mask != m)
		mask_free(s->output.mask);
	s->output.mask = m;
}

size_t session_redact_len(const struct session *s, const char *text, size_t keep)
{
	const struct mask *m = session_mask(s);
	size_t n = strnlen(text, keep), reach = m == NULL ? 0 : mask_reach(m);

	for (; reach > 0 && text[n] != '\0';
	     n++) /* line ends may split a value in output, so they do not count */
		reach -= text[n] != '\n' && text[n] != '\r';
	return n;
}

void session_redact(const struct session *s, char *text)
{
	const struct mask *m = session_mask(s);

	if (m != NULL)
		(void)mask_text(m, NULL, (uint8_t *)text, strlen(text));
}

void session_redact_cut(const struct session *s, char *text)
{
	const struct mask *m = session_mask(s);
	size_t n = strlen(text), reach = m == NULL ? 0 : mask_reach(m);

	session_redact(s, text);
	reach = reach < n ? reach : n;
	memset(text + n - reach, '*', reach);
}

void session_redact_bytes(const struct session *s, void *bytes, size_t n)
{
	const struct mask *m = session_mask(s);

	if (m != NULL)
		(void)mask_text(m, NULL, bytes, n);
}

size_t session_redact_turn(const struct session *s)
{
	const struct mask *m = session_mask(s);

	return m == NULL ? SIZE_MAX : mask_turn(m);
}

static unsigned session_bucket(const char *id)
{
	uint32_t h = 2166136261U; /* FNV-1a. Ids are random, so clients cannot choose collisions */

	for (; *id != '\0'; id++)
		h = (h ^ (uint8_t)*id) * 16777619U;
	return h % CORE_BUCKETS;
}

struct session *session_by_id(struct core *c, const char *id)
{
	struct session *s = c->sessions[session_bucket(id)];

	while (s != NULL && strcmp(s->row.id, id) != 0)
		s = s->next;
	return s;
}

void session_list_in(struct session *s)
{
	LIST_PUSH(&s->core->sessions[session_bucket(s->row.id)], s);
	s->listed = true;
}

struct session *session_find(struct core *c, const char *id)
{
	struct session *s = session_by_id(c, id);

	return s != NULL && s->row.state < SESSION_ENDING ? s : NULL;
}

/* A row with ended_ms is final, so the table is not searched for it. */
const struct store_session *session_now(struct core *c, const struct store_session *row,
					struct session **ret_live)
{
	struct session *s = row->ended_ms != 0 ? NULL : session_by_id(c, row->id);

	*ret_live = s != NULL && s->row.state < SESSION_ENDING ? s : NULL;
	return s == NULL ? row : &s->row;
}

void session_when_over(struct session *s, struct completion *c)
{
	struct err e;

	if (s->row.state < SESSION_ENDING) {
		completion_begin(c, s->core->loop, &s->when_over);
		return;
	}
	(void)err_set_reason(&e, session_gone_reason(&s->row), "session %s has ended", s->row.id);
	completion_end_soon(c, s->core->loop, &e);
}

struct tenant *session_tenant(const struct session *s)
{
	return s->tenant;
}

/* Another tenant's session is reported as not found, so that ids cannot be probed. */
struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e)
{
	struct session *s = session_by_id(c, id);
	struct store_session row;

	if (s != NULL && s->tenant == t && s->row.state < SESSION_ENDING)
		return s;
	if (!c->recovered) {
		/* Before recovery the row in the store may not be the last word. */
		(void)err_set_reason(e, REASON_UNAVAILABLE, "not ready: recovering");
		return NULL;
	}
	if (session_get(c, t, id, &row, e) < 0)
		return NULL;
	(void)err_set_reason(e, session_gone_reason(&row), "session %s is %s (%s)", id,
			     session_state_name((enum session_state)row.state),
			     session_reason_name((enum session_reason)row.reason));
	store_session_release(&row);
	return NULL;
}

/* The row of a live session is newer than the one in the store. Its texts belong to the session, so
 * ret->owned is NULL and store_session_release() frees nothing. */
int session_get(struct core *c, const struct tenant *t, const char *id, struct store_session *ret,
		struct err *e)
{
	struct session *s = session_by_id(c, id);

	if (s != NULL && s->tenant == t) {
		*ret = s->row; /* its texts are the session's */
		ret->owned = NULL;
		return 0;
	}
	if (s != NULL || store_session_get(c->store, id, ret, e) < 0) {
		if (s == NULL && e->code != ERR_NOT_FOUND)
			return -1;
		return err_missing(e, "session", id);
	}
	if (strcmp(ret->tenant, t->row.id) == 0)
		return 0;
	store_session_release(ret);
	return err_missing(e, "session", id);
}

bool session_is_restored(const struct session *s)
{
	return s->restored;
}

const struct store_session *session_row(const struct session *s)
{
	return &s->row;
}

struct live_cell *session_cell(const struct session *s)
{
	return s->cell;
}

struct store_usage *session_usage(struct session *s)
{
	return &s->row.usage;
}

void session_set_secrets(struct session *s, const char *lines)
{
	s->row.secrets = lines;
}

void session_set_refused(struct session *s, const char *lines)
{
	s->row.refused = lines;
	s->unsaved = true; /* the next change of state writes it, or the next second */
}

const struct store_actor *session_actor(const struct session *s)
{
	return &s->actor;
}

unsigned session_executions_running(const struct session *s)
{
	return s->running;
}

struct core *session_core(const struct session *s)
{
	return s->core;
}

bool session_goes_on(const struct session *s)
{
	return s->guest.from_memory;
}

struct session *session_source(const struct session *s)
{
	/* The source may have ended, and an id may not reveal another tenant's session. */
	struct session *source =
		s->guest.from_memory ? session_by_id(s->core, s->guest.source) : NULL;

	return source != NULL && source->tenant == s->tenant ? source : NULL;
}

const struct cell_level *session_level(const struct session *s)
{
	return cell_level_of(s->row.level);
}

const char *session_guest_word(const struct session *s)
{
	if (session_level(s)->engine == CELL_ENGINE_NONE || s->cell == NULL ||
	    s->row.state != SESSION_RUNNING)
		return NULL;
	return s->cell->guest_state == BOOT_GUEST_UNRESPONSIVE ? "unresponsive" : "running";
}

int session_level_check(const struct session *s, enum cell_ability ability, const char *what,
			struct err *e)
{
	const struct cell_level *level = session_level(s);

	if (cell_level_can(level, ability))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "%s: not possible at level %s", what, level->name);
}

void session_count(const struct core *c, unsigned ret[SESSION_STATES])
{
	memset(ret, 0, SESSION_STATES * sizeof(ret[0]));
	for (unsigned i = 0; i < CORE_BUCKETS; i++)
		for (const struct session *s = c->sessions[i]; s != NULL; s = s->next)
			if (s->row.state != SESSION_ENDED)
				ret[session_shown_state(&s->row)]++;
}

void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg)
{
	for (unsigned i = 0; i < CORE_BUCKETS; i++)
		LIST_WALK_ENDING(struct session, s, c->sessions[i]) {
			/* alone: a timer frees sessions. see() may end its own session at once */
			if (t == NULL || s->tenant == t)
				see(s, arg);
		}
}

void session_each_queued(const struct tenant *t, void (*see)(struct session *s, void *arg),
			 void *arg)
{
	/* alone: see() ends at most its own session */
	LIST_WALK_ENDING(struct session, s, t->queue)
		see(s, arg);
}

/* ---- the request */

bool session_has_guest(const struct session *s)
{
	return session_level(s)->engine != CELL_ENGINE_NONE;
}
