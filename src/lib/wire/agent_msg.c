#include "lib/wire/agent_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "lib/wire/boot_msg.h"

/* SPAWN on the wire: this head, then user, cwd, arguments, environment, each with its NUL. */
struct spawn_head {
	uint32_t handle, flags;
	uint16_t rows, cols;
	uint32_t argc, envc;
	uint32_t zero;
	uint64_t timeout_ms, nofile;
};

/* Move *at behind the next string. NULL if none ends within the bytes. */
static const char *agent_next_string(const uint8_t *bytes, size_t len, size_t *at)
{
	const uint8_t *begin = bytes + *at;
	const uint8_t *end = memchr(begin, '\0', len - *at);

	if (end == NULL)
		return NULL;
	*at = (size_t)(end - bytes) + 1;
	return (const char *)begin;
}

static int agent_check_head(const struct spawn_head *h, struct err *e)
{
	if ((h->flags & ~(uint32_t)AGENT_SPAWN_FLAGS) != 0 || h->zero != 0)
		return err_set(e, ERR_INVALID, "spawn: unknown flag");
	if ((h->flags & AGENT_BUILTIN) != 0 &&
	    (h->flags & (AGENT_HOLD | AGENT_TTY | AGENT_RESULTS)) != 0)
		return err_set(e, ERR_INVALID, "spawn: flags that a built-in cannot have");
	if ((h->flags & (AGENT_TTY | AGENT_RESULTS)) == (AGENT_TTY | AGENT_RESULTS))
		return err_set(e, ERR_INVALID, "spawn: flags that a terminal cannot have");
	if (h->argc == 0 || h->argc > AGENT_STRINGS_MAX || h->envc > AGENT_STRINGS_MAX)
		return err_set(e, ERR_INVALID, "spawn: %u arguments and %u variables", h->argc,
			       h->envc);
	return 0;
}

int agent_spawn_read(const uint8_t *body, size_t len, struct agent_spawn *ret, struct err *e)
{
	struct spawn_head h;
	struct agent_spawn s;
	size_t at = sizeof(h);

	if (len < sizeof(h))
		return err_set(e, ERR_INVALID, "spawn: %zu bytes", len);
	memcpy(&h, body, sizeof(h));
	if (agent_check_head(&h, e) < 0)
		return -1;
	s = (struct agent_spawn){ .handle = h.handle,
				  .flags = h.flags,
				  .rows = h.rows,
				  .cols = h.cols,
				  .timeout_ms = h.timeout_ms,
				  .nofile = h.nofile,
				  .argc = h.argc,
				  .envc = h.envc };
	s.user = agent_next_string(body, len, &at);
	s.cwd = s.user == NULL ? NULL : agent_next_string(body, len, &at);
	if (s.user == NULL || s.cwd == NULL || strlen(s.user) >= AGENT_USER_MAX)
		return err_set(e, ERR_INVALID, "spawn: user or directory missing or too long");
	s.strings = (const char *)body + at;
	s.strings_len = len - at;
	for (uint32_t i = 0; i < s.argc + s.envc; i++)
		if (agent_next_string(body, len, &at) == NULL)
			return err_set(e, ERR_INVALID, "spawn: string %u of %u missing", i,
				       s.argc + s.envc);
	if (at != len)
		return err_set(e, ERR_INVALID, "spawn: %zu bytes too many", len - at);
	*ret = s;
	return 0;
}

size_t agent_spawn_size(const struct agent_spawn *s)
{
	size_t n = sizeof(struct spawn_head) + strlen(s->user) + 1 + strlen(s->cwd) + 1 +
		   s->strings_len;

	return n <= AGENT_REQUEST_MAX ? n : 0;
}

static uint8_t *agent_put(uint8_t *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	return to + n;
}

void agent_spawn_write(const struct agent_spawn *s, uint8_t *ret_body)
{
	struct spawn_head h;

	memset(&h, 0, sizeof(h)); /* padding too: it goes over the wire */
	h.handle = s->handle;
	h.flags = s->flags;
	h.rows = s->rows;
	h.cols = s->cols;
	h.argc = s->argc;
	h.envc = s->envc;
	h.timeout_ms = s->timeout_ms;
	h.nofile = s->nofile;
	ret_body = agent_put(ret_body, &h, sizeof(h));
	ret_body = agent_put(ret_body, s->user, strlen(s->user) + 1);
	ret_body = agent_put(ret_body, s->cwd, strlen(s->cwd) + 1);
	if (s->strings_len > 0)
		(void)agent_put(ret_body, s->strings, s->strings_len);
}

void agent_spawn_untimed(const uint8_t *body, uint8_t ret_head[AGENT_SPAWN_HEAD])
{
	struct spawn_head h;

	static_assert(sizeof(h) == AGENT_SPAWN_HEAD, "as sent");
	memcpy(&h, body, sizeof(h));
	h.timeout_ms = 0;
	memcpy(ret_head, &h, sizeof(h));
}

static bool agent_ms_fits(uint16_t type, uint64_t ms)
{
	uint64_t bytes = ms & ~(uint64_t)AGENT_STAY;

	if (type == AGENT_PAUSED || type == AGENT_LINGER || type == AGENT_LEASE ||
	    type == AGENT_DEADLINE)
		return ms <= AGENT_TIME_MAX_MS;
	if (type == AGENT_SNAPSHOT)
		return bytes % AGENT_PAGE == 0 && bytes <= BOOT_MEMORY_MAX;
	return ms == 0 || type == AGENT_KILL_TREE;
}

/* The fields that an order of this type may use. */
static bool agent_order_fits(uint16_t type, const struct agent_order *o)
{
	bool named = type == AGENT_SIGNAL || type == AGENT_KILL_TREE || type == AGENT_CLOSE_STDIN ||
		     type == AGENT_RESIZE || type == AGENT_FORGET || type == AGENT_DIAL;

	if (!named && o->handle != 0)
		return false;
	if (type == AGENT_SIGNAL ? o->sig < 1 || o->sig > 64 : o->sig != 0)
		return false;
	if (type != AGENT_RESIZE && (o->rows != 0 || o->cols != 0))
		return false;
	if ((type == AGENT_DIAL) != (o->port != 0))
		return false;
	return o->zero == 0 && agent_ms_fits(type, o->ms);
}

int agent_order_read(const struct frame *f, struct agent_order *ret, struct err *e)
{
	struct agent_order o;

	if (f->type <= AGENT_SPAWN || f->type >= AGENT_REQUESTS_END || f->type == AGENT_BOOT ||
	    f->type == AGENT_RESUME)
		return err_set(e, ERR_INVALID, "request of unknown type %u", f->type);
	if (f->len != sizeof(o))
		return err_set(e, ERR_INVALID, "request %u: %u bytes, want %zu", f->type, f->len,
			       sizeof(o));
	memcpy(&o, f->body, sizeof(o));
	if (!agent_order_fits(f->type, &o))
		return err_set(e, ERR_INVALID, "request %u: values out of range", f->type);
	*ret = o;
	return 0;
}

/* The flags that make sense with each type. Those that exclude each other are refused, so that one
 * set of flags has one meaning. */
static bool agent_flags_fit(uint16_t type, uint32_t flags)
{
	const uint32_t shape = AGENT_IS_TTY | AGENT_IS_HELD | AGENT_HAS_STDIN | AGENT_HAS_RESULTS;
	const uint32_t state = AGENT_IS_STARTING | AGENT_HAS_EXITED;
	const uint32_t never = AGENT_IS_TTY | AGENT_HAS_RESULTS;
	const uint32_t hit = AGENT_HIT_MEMORY | AGENT_HIT_PIDS;

	if ((flags & hit) != 0 && (type == AGENT_EXITED || (flags & AGENT_HAS_EXITED) != 0))
		flags &= ~hit;

	if ((flags & never) == never)
		return false;
	if (type == AGENT_STARTED)
		return (flags & ~shape) == 0;
	if (type == AGENT_HELD)
		return (flags & ~(shape | state)) == 0 && (flags & AGENT_IS_HELD) != 0 &&
		       (flags & state) != state;
	if (type == AGENT_BOOTED || type == AGENT_GUEST)
		return (flags & ~(uint32_t)AGENT_HAS_TEXT) == 0;
	if (type == AGENT_TREE_DEAD)
		return flags == 0 || flags == AGENT_SOME_REMAIN || flags == AGENT_NOT_KNOWN;
	return flags == 0;
}

/* How many values `stage` has with each type. */
static uint32_t agent_stages_of(uint16_t type)
{
	if (type == AGENT_BOOTED || type == AGENT_SNAPSHOT_DONE)
		return BOOT_STAGES;
	return type == AGENT_GUEST ? BOOT_GUEST_STATES : AGENT_STAGES;
}

int agent_event_read(const struct frame *f, struct agent_event *ret, struct err *e)
{
	struct agent_event v;

	if (f->type < AGENT_READY || f->type >= AGENT_EVENTS_END)
		return err_set(e, ERR_INVALID, "PID 1 sent a message of unknown type %u", f->type);
	if (f->len != sizeof(v))
		return err_set(e, ERR_INVALID, "PID 1 sent %u bytes, want %zu", f->len, sizeof(v));
	memcpy(&v, f->body, sizeof(v));
	if (v.stage >= agent_stages_of(f->type) || v.exit_code > 255 || v.signal > 64 ||
	    (v.exit_code != 0 && v.signal != 0) || v.timed_out > 1 || v.sys < 0 || v.sys > 4095 ||
	    !agent_flags_fit(f->type, v.flags))
		return err_set(e, ERR_INVALID, "PID 1 sent values out of range");
	*ret = v;
	return 0;
}

size_t agent_event_fds(enum agent_type type, const struct agent_event *v)
{
	size_t input = (v->flags & AGENT_HAS_STDIN) != 0;

	if (type == AGENT_DIALED)
		return v->sys == 0;
	if (type == AGENT_EGRESS_LISTENS || type == AGENT_SNAPSHOT_DONE)
		return v->sys == 0 ? 2 : 0;
	if (type == AGENT_BOOTED || type == AGENT_GUEST)
		return (v->flags & AGENT_HAS_TEXT) != 0;
	if ((type != AGENT_STARTED && type != AGENT_HELD) || (v->flags & AGENT_IS_STARTING) != 0)
		return 0;
	if ((v->flags & AGENT_IS_TTY) != 0)
		return (v->flags & AGENT_IS_HELD) != 0 ? 1 + input : 1;
	return 2 + input + ((v->flags & AGENT_HAS_RESULTS) != 0);
}
