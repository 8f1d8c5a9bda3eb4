/* Goal: what is asked of PID 1 arrives as it was sent, and of what PID 1 says only what has the
 * exact layout and sane values gets through. */
#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

#include "support.h"

#define HEAD 40 /* handle, flags, rows, cols, argc, envc, zero, timeout_ms, nofile */

static const char strings[] = "sh\0-c\0exit 0\0A=1\0B=";

static const struct agent_spawn good = {
	.handle = 7,
	.flags = AGENT_TTY,
	.rows = 24,
	.cols = 80,
	.timeout_ms = 30000,
	.nofile = 1024,
	.argc = 3,
	.envc = 2,
	.user = "root",
	.cwd = "/tmp",
	.strings = strings,
	.strings_len = sizeof(strings),
};

/* The body of a SPAWN; the caller frees it. */
static uint8_t *write_spawn(const struct agent_spawn *s, size_t *ret_len)
{
	uint8_t *body;

	*ret_len = agent_spawn_size(s);
	CHECK(*ret_len > 0);
	body = malloc(*ret_len);
	CHECK(body != NULL);
	agent_spawn_write(s, body);
	return body;
}

static int read_exact(const uint8_t *body, size_t len)
{
	struct agent_spawn s = { .handle = 99 };
	struct err e = { 0 };
	uint8_t *exact = exact_copy(body, len);
	int got = agent_spawn_read(exact, len, &s, &e);

	free(exact);
	CHECK(got == 0 || (got == -1 && e.code == ERR_INVALID && s.handle == 99));
	return got;
}

static void spawn_round_trip(const struct agent_spawn *s)
{
	struct agent_spawn r;
	struct err e = { 0 };
	size_t len;
	uint8_t *body = write_spawn(s, &len);

	CHECK(len == HEAD + strlen(s->user) + 1 + strlen(s->cwd) + 1 + s->strings_len);
	CHECK(agent_spawn_read(body, len, &r, &e) == 0);
	CHECK(r.handle == s->handle && r.flags == s->flags && r.rows == s->rows &&
	      r.cols == s->cols);
	CHECK(r.timeout_ms == s->timeout_ms && r.nofile == s->nofile && r.argc == s->argc &&
	      r.envc == s->envc);
	CHECK_STR(r.user, s->user);
	CHECK_STR(r.cwd, s->cwd);
	CHECK(r.strings_len == s->strings_len &&
	      memcmp(r.strings, s->strings, s->strings_len) == 0);
	CHECK((const uint8_t *)r.strings + r.strings_len == body + len);
	free(body);
}

static void spawn_arrives_as_sent(void)
{
	struct agent_spawn s = good;
	char long_cwd[5000];

	spawn_round_trip(&s);
	s.handle = UINT32_MAX;
	s.flags = AGENT_TTY | AGENT_NO_STDIN | AGENT_HOLD;
	s.rows = s.cols = UINT16_MAX;
	s.timeout_ms = s.nofile = UINT64_MAX;
	spawn_round_trip(&s);
	s = (struct agent_spawn){
		.argc = 1, .user = "", .cwd = "", .strings = "", .strings_len = 1
	};
	spawn_round_trip(&s);
	memset(long_cwd, 'd', sizeof(long_cwd) - 1);
	long_cwd[sizeof(long_cwd) - 1] = '\0';
	s = good;
	s.cwd = long_cwd;
	spawn_round_trip(&s);
}

static void spawn_cut_anywhere_is_refused(void)
{
	size_t len;
	uint8_t *body = write_spawn(&good, &len);

	for (size_t cut = 0; cut < len; cut++)
		CHECK(read_exact(body, cut) == -1);
	CHECK(read_exact(body, len) == 0);
	free(body);
}

static void spawn_with_more_is_refused(void)
{
	size_t len;
	uint8_t *body = write_spawn(&good, &len), *more = calloc(1, len + 9);

	CHECK(more != NULL);
	memcpy(more, body, len);
	for (size_t extra = 1; extra <= 9; extra++)
		CHECK(read_exact(more, len + extra) == -1);
	free(more);
	free(body);
}

static const struct {
	const char *name;
	size_t offset;
	uint32_t value;
	int want;
	const char *reason;
} heads[] = {
	{ "any handle", 0, UINT32_MAX, 0, NULL },
	{ "no flag", 4, 0, 0, NULL },
	{ "flags of a program", 4, AGENT_TTY | AGENT_NO_STDIN | AGENT_HOLD, 0, NULL },
	{ "flags of a built-in", 4, AGENT_BUILTIN | AGENT_NO_STDIN, 0, NULL },
	{ "results", 4, AGENT_RESULTS | AGENT_HOLD, 0, NULL },
	{ "results of a built-in", 4, AGENT_BUILTIN | AGENT_RESULTS, -1, "built-in" },
	{ "results of a terminal", 4, AGENT_TTY | AGENT_RESULTS, -1, "terminal" },
	{ "a held built-in", 4, AGENT_BUILTIN | AGENT_HOLD, -1, "built-in" },
	{ "a built-in with a terminal", 4, AGENT_BUILTIN | AGENT_TTY, -1, "built-in" },
	{ "next flag", 4, AGENT_SPAWN_FLAGS + 1, -1, "flag" },
	{ "last flag", 4, 1U << 31, -1, "flag" },
	{ "any size of terminal", 8, UINT32_MAX, 0, NULL },
	{ "no argument", 12, 0, -1, "0 arguments and 2 variables" },
	{ "an argument fewer than said", 12, 4, -1, "string 5 of 6 missing" },
	{ "an argument more than said", 12, 2, -1, "3 bytes too many" },
	{ "arguments as many as allowed", 12, AGENT_STRINGS_MAX, -1, "missing" },
	{ "too many arguments", 12, AGENT_STRINGS_MAX + 1, -1, "65537 arguments" },
	{ "far too many arguments", 12, UINT32_MAX, -1, "4294967295 arguments" },
	{ "a variable fewer than said", 16, 3, -1, "string 5 of 6 missing" },
	{ "a variable more than said", 16, 1, -1, "bytes too many" },
	{ "too many variables", 16, AGENT_STRINGS_MAX + 1, -1, "65537 variables" },
	{ "far too many variables", 16, UINT32_MAX, -1, "4294967295 variables" },
	{ "zero is not", 20, 1, -1, "flag" },
	{ "zero is far from it", 20, 1U << 31, -1, "flag" },
};

static void spawn_heads_are_checked(void)
{
	for (size_t i = 0; i < COUNT(heads); i++) {
		struct agent_spawn s;
		struct err e = { 0 };
		size_t len;
		uint8_t *body = write_spawn(&good, &len);

		memcpy(body + heads[i].offset, &heads[i].value, sizeof(uint32_t));
		CHECK_CASE(heads[i].name, agent_spawn_read(body, len, &s, &e) == heads[i].want);
		if (heads[i].want < 0)
			CHECK_HAS(heads[i].name, e.msg, heads[i].reason);
		free(body);
	}
}

static void spawn_user_is_bounded(void)
{
	char user[AGENT_USER_MAX + 1];

	for (size_t n = AGENT_USER_MAX - 2; n <= AGENT_USER_MAX; n++) {
		struct agent_spawn s = good, r;
		struct err e = { 0 };
		size_t len;

		memset(user, 'u', n);
		user[n] = '\0';
		s.user = user;
		uint8_t *body = write_spawn(&s, &len);

		CHECK(agent_spawn_read(body, len, &r, &e) == (n < AGENT_USER_MAX ? 0 : -1));
		free(body);
	}
}

/* Without its last NUL a string would run on into whatever follows the message. */
static void spawn_strings_end(void)
{
	size_t len;
	uint8_t *body = write_spawn(&good, &len);

	for (size_t i = HEAD; i < len; i++) {
		uint8_t saved = body[i];

		if (saved != '\0')
			continue;
		body[i] = 'x';
		CHECK(read_exact(body, len) == -1);
		body[i] = saved;
	}
	memset(body + HEAD, 'x', len - HEAD);
	CHECK(read_exact(body, len) == -1);
	memset(body + HEAD, 0, len - HEAD);
	CHECK(read_exact(body, len) == -1); /* too many empty strings */
	CHECK(read_exact(body, HEAD + 7) == 0);
	free(body);
}

static void spawn_has_a_size(void)
{
	const size_t fixed = HEAD + sizeof("root") + sizeof("/tmp");
	struct agent_spawn s = good;

	s.strings_len = AGENT_REQUEST_MAX - fixed; /* size only looks at the length */
	CHECK(agent_spawn_size(&s) == AGENT_REQUEST_MAX);
	s.strings_len++;
	CHECK(agent_spawn_size(&s) == 0);
}

static void spawn_takes_as_many_strings_as_allowed(void)
{
	struct agent_spawn s = good, r;
	struct err e = { 0 };
	size_t len;
	char *empty = calloc(1, (size_t)2 * AGENT_STRINGS_MAX);

	CHECK(empty != NULL);
	s.argc = s.envc = AGENT_STRINGS_MAX;
	s.strings = empty;
	s.strings_len = (size_t)2 * AGENT_STRINGS_MAX;
	uint8_t *body = write_spawn(&s, &len);

	CHECK(agent_spawn_read(body, len, &r, &e) == 0);
	CHECK(read_exact(body, len - 1) == -1);
	free(body);
	free(empty);
}

static const struct agent_event good_event = {
	.handle = 1, .pid = 2, .cpu_us = 3, .maxrss_bytes = 4
};

static int read_event(unsigned type, const void *body, size_t len, struct agent_event *ret)
{
	uint8_t *exact = exact_copy(body, len);
	struct frame f = { .type = (uint16_t)type, .len = (uint32_t)len, .body = exact };
	struct err e = { 0 };
	int got = agent_event_read(&f, ret, &e);

	free(exact);
	CHECK(got == 0 || (got == -1 && e.code == ERR_INVALID));
	return got;
}

static void events_have_known_types(void)
{
	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		struct agent_event v;

		CHECK(read_event(type, &good_event, sizeof(good_event), &v) ==
		      ((type >= AGENT_READY && type < AGENT_EVENTS_END) && type != AGENT_HELD
			       ? 0
			       : -1)); /* HELD has a flag */
	}
}

static void events_have_one_size(void)
{
	static const uint8_t bytes[AGENT_REPLY_MAX];

	for (size_t len = 0; len <= sizeof(bytes); len++) {
		struct agent_event v;

		CHECK(read_event(AGENT_EXITED, bytes, len, &v) == (len == sizeof(v) ? 0 : -1));
	}
}

static void events_arrive_as_sent(void)
{
	struct agent_event v = { .handle = UINT32_MAX,
				 .pid = UINT32_MAX,
				 .stage = AGENT_AT_SYSTEM,
				 .sys = 4095,
				 .exit_code = 255,
				 .timed_out = 1,
				 .cpu_us = UINT64_MAX,
				 .maxrss_bytes = UINT64_MAX,
				 .disk_full = UINT64_MAX,
				 .inodes_full = UINT64_MAX,
				 .mark = UINT64_MAX,
				 .disk_bytes = UINT64_MAX,
				 .disk_limit_bytes = UINT64_MAX,
				 .inodes = UINT64_MAX,
				 .processes = UINT64_MAX };
	struct agent_event r;

	CHECK(read_event(AGENT_EXITED, &v, sizeof(v), &r) == 0);
	CHECK(memcmp(&v, &r, sizeof(v)) == 0);
}

#define EVENT(f) offsetof(struct agent_event, f)

static const struct {
	const char *name;
	size_t offset;
	uint32_t value;
	int want;
} events[] = {
	{ "last stage", EVENT(stage), AGENT_STAGES - 1, 0 },
	{ "stage beyond", EVENT(stage), AGENT_STAGES, -1 },
	{ "stage far beyond", EVENT(stage), UINT32_MAX, -1 },
	{ "last errno", EVENT(sys), 4095, 0 },
	{ "errno beyond", EVENT(sys), 4096, -1 },
	{ "errno negative", EVENT(sys), UINT32_MAX, -1 },
	{ "errno the least", EVENT(sys), 1U << 31, -1 },
	{ "last exit code", EVENT(exit_code), 255, 0 },
	{ "exit code beyond", EVENT(exit_code), 256, -1 },
	{ "exit code far beyond", EVENT(exit_code), UINT32_MAX, -1 },
	{ "last signal", EVENT(signal), 64, 0 },
	{ "signal beyond", EVENT(signal), 65, -1 },
	{ "signal far beyond", EVENT(signal), UINT32_MAX, -1 },
	{ "timed out", EVENT(timed_out), 1, 0 },
	{ "timed out twice", EVENT(timed_out), 2, -1 },
	{ "flags beyond", EVENT(flags), 1U << 11, -1 },
	{ "flags far beyond", EVENT(flags), 1U << 31, -1 },
};

static void events_have_values_in_range(void)
{
	for (size_t i = 0; i < COUNT(events); i++)
		for (unsigned type = AGENT_READY; type < AGENT_BOOTED;
		     type++) { /* see boot_msg.h */
			struct agent_event v = good_event, r = { .handle = 99 };

			v.flags = type == AGENT_HELD ? AGENT_IS_HELD : 0;
			memcpy((char *)&v + events[i].offset, &events[i].value, sizeof(uint32_t));
			CHECK_CASE(events[i].name,
				   read_event(type, &v, sizeof(v), &r) == events[i].want);
			CHECK_CASE(events[i].name, events[i].want == 0 || r.handle == 99);
		}
}

/* The header says so: "one of them is 0". */
static void nothing_exits_and_is_killed(void)
{
	struct agent_event v = good_event, r;

	v.exit_code = 1;
	v.signal = 9;
	CHECK(read_event(AGENT_EXITED, &v, sizeof(v), &r) == -1);
}

/* Which flags each type may have, said once more. */
static void flags_fit_their_events(void)
{
	for (unsigned type = AGENT_READY; type < AGENT_EVENTS_END; type++)
		for (uint32_t flags = 0; flags < 1U << 12; flags++) {
			struct agent_event v = good_event, r;
			bool fits = flags == 0;

			/* Limits that were hit: of a program that has ended, 1 << 9 and 1 << 10. */
			uint32_t hit = type == AGENT_HELD && (flags & 16) != 0 ? 1536 : 0;
			uint32_t rest = flags & ~(AGENT_HAS_RESULTS | hit);
			bool both = (flags & AGENT_HAS_RESULTS) != 0 && (flags & AGENT_IS_TTY) != 0;

			if (type == AGENT_STARTED)
				fits = rest < 8 && !both;
			if (type == AGENT_HELD)
				fits = rest < 32 && (flags & 2) != 0 && (flags & 24) != 24 && !both;
			if (type == AGENT_EXITED)
				fits = (flags & ~1536U) == 0;
			if (type == AGENT_TREE_DEAD)
				fits = flags == 0 || flags == 32 || flags == 64;
			if (type == AGENT_BOOTED || type == AGENT_GUEST)
				fits = flags == 0 || flags == 256;
			v.flags = flags;
			CHECK(read_event(type, &v, sizeof(v), &r) == (fits ? 0 : -1));
		}
}

static void descriptors_follow_from_flags(void)
{
	static const size_t want[] = { 2, 1, 2, 1, 3, 1, 3, 2 }; /* TTY 1, HELD 2, STDIN 4 */

	for (uint32_t flags = 0; flags < 8; flags++) {
		struct agent_event v = { .flags = flags };

		CHECK(agent_event_fds(AGENT_STARTED, &v) == want[flags]);
		CHECK(agent_event_fds(AGENT_HELD, &v) == want[flags]);
		CHECK(agent_event_fds(AGENT_EXITED, &v) == 0);
		CHECK(agent_event_fds(AGENT_DIALED, &v) == 1);
		CHECK(agent_event_fds(AGENT_EGRESS_LISTENS, &v) == 2);
		v.sys = 111;
		CHECK(agent_event_fds(AGENT_DIALED, &v) == 0);
		CHECK(agent_event_fds(AGENT_EGRESS_LISTENS, &v) == 0);
		v.sys = 0;
		v.flags |= AGENT_HAS_EXITED;
		CHECK(agent_event_fds(AGENT_HELD, &v) == want[flags]);
		v.flags = flags | AGENT_HAS_RESULTS;
		if ((flags & AGENT_IS_TTY) == 0)
			CHECK(agent_event_fds(AGENT_STARTED, &v) == want[flags] + 1);
		v.flags = flags | AGENT_IS_STARTING;
		CHECK(agent_event_fds(AGENT_HELD, &v) == 0);
	}
}

static int read_order(unsigned type, const void *body, size_t len)
{
	uint8_t *exact = exact_copy(body, len);
	struct frame f = { .type = (uint16_t)type, .len = (uint32_t)len, .body = exact };
	struct agent_order o = { .zero = 99 };
	struct err e = { 0 };
	int got = agent_order_read(&f, &o, &e);

	free(exact);
	CHECK(got == 0 ? memcmp(&o, body, sizeof(o)) == 0
		       : got == -1 && e.code == ERR_INVALID && o.zero == 99);
	return got;
}

#define HANDLE (1U << 0)
#define SIG (1U << 1)
#define SIZE (1U << 2)
#define MS (1U << 3)
#define PORT (1U << 4)

/* Which fields a type may use; SIGNAL and DIAL must. */
static const struct {
	unsigned type, uses;
} orders[] = {
	{ AGENT_SIGNAL, HANDLE | SIG },
	{ AGENT_KILL_ALL, 0 },
	{ AGENT_KILL_TREE, HANDLE | MS }, /* a mark */
	{ AGENT_CLOSE_STDIN, HANDLE },
	{ AGENT_FORGET, HANDLE },
	{ AGENT_LINGER, MS },
	{ AGENT_RESIZE, HANDLE | SIZE },
	{ AGENT_PAUSED, MS },
	{ AGENT_STAT, 0 },
	{ AGENT_END, 0 },
	{ AGENT_DIAL, HANDLE | PORT },
	{ AGENT_LISTEN_EGRESS, 0 },
	{ AGENT_LEASE, MS },
	{ AGENT_DEADLINE, MS },
	{ 0, ~0U },
	{ AGENT_SPAWN, ~0U },
	{ AGENT_REQUESTS_END, ~0U },
	{ AGENT_READY, ~0U },
	{ UINT16_MAX, ~0U },
};

static void orders_are_checked(void)
{
	for (size_t i = 0; i < COUNT(orders); i++)
		for (unsigned with = 0; with < 32; with++) {
			const struct agent_order o = { .handle = with & HANDLE ? UINT32_MAX : 0,
						       .sig = with & SIG ? 64 : 0,
						       .rows = with & SIZE ? UINT16_MAX : 0,
						       .cols = with & SIZE ? 1 : 0,
						       .port = with & PORT ? UINT16_MAX : 0,
						       .ms = with & MS ? AGENT_TIME_MAX_MS : 0 };
			bool fits = orders[i].uses != ~0U && (with & ~orders[i].uses) == 0 &&
				    (orders[i].uses & (SIG | PORT)) == (with & (SIG | PORT));

			if (read_order(orders[i].type, &o, sizeof(o)) != (fits ? 0 : -1))
				printf("# type %u with %u\n", orders[i].type, with);
			CHECK(read_order(orders[i].type, &o, sizeof(o)) == (fits ? 0 : -1));
		}
}

static void orders_have_one_size_and_values_in_range(void)
{
	static const struct {
		struct agent_order o;
		unsigned type;
		int want;
	} cases[] = { { { .sig = INT32_MIN }, AGENT_SIGNAL, -1 },
		      { { .sig = -1 }, AGENT_SIGNAL, -1 },
		      { { .sig = 1 }, AGENT_SIGNAL, 0 },
		      { { .sig = 65 }, AGENT_SIGNAL, -1 },
		      { { .ms = AGENT_TIME_MAX_MS + 1 }, AGENT_PAUSED, -1 },
		      { { .ms = UINT64_MAX }, AGENT_PAUSED, -1 },
		      { { .ms = UINT64_MAX }, AGENT_KILL_TREE, 0 },
		      { { .ms = 1 }, AGENT_FORGET, -1 },
		      { { .ms = AGENT_STAY }, AGENT_SNAPSHOT, 0 },
		      { { .ms = AGENT_STAY | 3 * AGENT_PAGE }, AGENT_SNAPSHOT, 0 },
		      { { .ms = 2 }, AGENT_SNAPSHOT, -1 },
		      { { .ms = AGENT_PAGE + 8 }, AGENT_SNAPSHOT, -1 },
		      { { .ms = BOOT_MEMORY_MAX }, AGENT_SNAPSHOT, 0 },
		      { { .ms = BOOT_MEMORY_MAX + AGENT_PAGE }, AGENT_SNAPSHOT, -1 },
		      { { .zero = 1 }, AGENT_KILL_TREE, -1 },
		      { { .zero = 1 }, AGENT_STAT, -1 },
		      { { .port = 1 }, AGENT_DIAL, 0 },
		      { { .port = 1, .zero = 1 }, AGENT_DIAL, -1 },
		      { { .port = 80 }, AGENT_SIGNAL, -1 } };
	static const uint8_t zeros[64];

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK(read_order(cases[i].type, &cases[i].o, sizeof(cases[i].o)) == cases[i].want);
	for (size_t len = 0; len <= sizeof(zeros); len++)
		CHECK(read_order(AGENT_STAT, zeros, len) ==
		      (len == sizeof(struct agent_order) ? 0 : -1));
}

TEST_MAIN({ "a spawn arrives as sent", spawn_arrives_as_sent },
	  { "a spawn cut anywhere is refused", spawn_cut_anywhere_is_refused },
	  { "a spawn with more is refused", spawn_with_more_is_refused },
	  { "heads of spawns are checked", spawn_heads_are_checked },
	  { "the user of a spawn is bounded", spawn_user_is_bounded },
	  { "the strings of a spawn end", spawn_strings_end },
	  { "a spawn has a size", spawn_has_a_size },
	  { "a spawn takes as many strings as allowed", spawn_takes_as_many_strings_as_allowed },
	  { "events have known types", events_have_known_types },
	  { "events have one size", events_have_one_size },
	  { "events arrive as sent", events_arrive_as_sent },
	  { "events have values in range", events_have_values_in_range },
	  { "nothing both exits and is killed", nothing_exits_and_is_killed },
	  { "flags fit their events", flags_fit_their_events },
	  { "descriptors follow from flags", descriptors_follow_from_flags },
	  { "orders are checked", orders_are_checked },
	  { "orders have one size and values in range", orders_have_one_size_and_values_in_range })
