/* Goal: an error says what happened, in bounds, and one from a peer is safe to print. */
#include "lib/base/err.h"

#include <errno.h>

#include "support.h"

static void has_a_name_for_every_code(void)
{
	static const char *const want[] = { "none",	"invalid", "denied",	  "not_found",
					    "conflict", "limit",   "unsupported", "system" };

	CHECK(COUNT(want) == ERR_CODES);
	for (int code = 0; code < ERR_CODES; code++)
		CHECK_STR(err_code_name((enum err_code)code), want[code]);
	CHECK_STR(err_code_name(ERR_CODES), "unknown");
	CHECK_STR(err_code_name((enum err_code)1000000), "unknown");
}

static void sets(void)
{
	struct err e = { .code = ERR_SYSTEM, .sys = 5, .msg = "old" };

	CHECK(err_set(&e, ERR_DENIED, "no %s for %d", "entry", 7) == -1);
	CHECK(e.code == ERR_DENIED && e.sys == 0);
	CHECK_STR(e.msg, "no entry for 7");
}

static void appends_the_system_s_words(void)
{
	struct err e = { 0 };
	char want[64];

	errno = ENOENT;
	CHECK(err_sys(&e, "open %s", "x") == -1);
	CHECK(errno == ENOENT);
	CHECK(e.code == ERR_SYSTEM && e.sys == ENOENT);
	(void)snprintf(want, sizeof(want), "open x: %s", strerror(ENOENT));
	CHECK_STR(e.msg, want);
}

static void puts_the_context_in_front(void)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_LIMIT, "too many");
	e.sys = 3;
	CHECK(err_wrap(&e, "cell %d", 5) == -1);
	CHECK_STR(e.msg, "cell 5: too many");
	CHECK(err_wrap(&e, "run") == -1);
	CHECK_STR(e.msg, "run: cell 5: too many");
	CHECK(e.code == ERR_LIMIT && e.sys == 3);
	CHECK(err_wrap(&e, "%s", e.msg) == -1); /* the message as its own context */
	CHECK_STR(e.msg, "run: cell 5: too many: run: cell 5: too many");
}

/* At every length around the end of the message: cut, ended, and nothing written behind it. */
static void stays_within_its_bounds(void)
{
	char text[600];

	memset(text, 'x', sizeof(text));
	for (size_t n = 0; n < sizeof(text); n++) {
		struct err *e = malloc(sizeof(*e));
		size_t cap = sizeof(e->msg), want = n < cap ? n : cap - 1;

		CHECK(e != NULL);
		CHECK(err_set(e, ERR_INVALID, "%.*s", (int)n, text) == -1);
		CHECK(strlen(e->msg) == want);
		errno = EINVAL;
		CHECK(err_sys(e, "%.*s", (int)n, text) == -1);
		CHECK(strlen(e->msg) >= want && strlen(e->msg) < cap);
		CHECK(strncmp(e->msg, text, want) == 0);
		(void)err_set(e, ERR_INVALID, "inner");
		CHECK(err_wrap(e, "%.*s", (int)n, text) == -1);
		CHECK(strlen(e->msg) == (n + 7 < cap ? n + 7 : cap - 1));
		(void)err_set(e, ERR_INVALID, "%.*s", (int)n, text);
		CHECK(err_wrap(e, "outer") == -1);
		CHECK(strlen(e->msg) == (want + 7 < cap ? want + 7 : cap - 1));
		CHECK(strncmp(e->msg, "outer: ", 7) == 0);
		free(e);
	}
}

/* Leaves a mark in the stack where the next call will have its variables. */
static __attribute__((noinline)) void dirty_the_stack(void)
{
	volatile unsigned char bytes[4096];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0xa5;
}

/* An error is copied over sockets as it is: behind the message there must be nothing of our stack.
 */
static void wrap_does_not_leak_the_stack(void)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_INVALID, "short");
	dirty_the_stack();
	(void)err_wrap(&e, "outer");
	for (size_t i = strlen(e.msg); i < sizeof(e.msg); i++)
		CHECK((unsigned char)e.msg[i] != 0xa5);
}

static void makes_codes_of_a_peer_real(void)
{
	static const struct {
		int code;
		enum err_code want;
	} cases[] = { { ERR_NONE, ERR_SYSTEM },
		      { ERR_INVALID, ERR_INVALID },
		      { ERR_UNSUPPORTED, ERR_UNSUPPORTED },
		      { ERR_SYSTEM, ERR_SYSTEM },
		      { ERR_CODES, ERR_SYSTEM },
		      { -1, ERR_SYSTEM },
		      { 0x7fffffff, ERR_SYSTEM } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err e = { .msg = "text" };

		memcpy(&e.code, &cases[i].code, sizeof(e.code)); /* as it comes from a socket */
		err_sanitize(&e);
		CHECK(e.code == cases[i].want);
		CHECK_STR(e.msg, "text");
	}
}

static void ends_the_message_of_a_peer(void)
{
	struct err *e = malloc(sizeof(*e));

	CHECK(e != NULL);
	memset(e, 'x', sizeof(*e));
	err_sanitize(e);
	CHECK(strlen(e->msg) == sizeof(e->msg) - 1);
	free(e);
}

static void hides_control_bytes_of_a_peer(void)
{
	for (int c = 1; c < 0x80; c++) {
		struct err e = { .code = ERR_INVALID, .msg = { 'a', (char)c, 'b', '\0' } };
		char want[] = { 'a', (char)(c < 0x20 || c == 0x7f ? '?' : c), 'b', '\0' };

		err_sanitize(&e);
		CHECK_STR(e.msg, want);
	}
}

/* 9B alone, or C2 9B as UTF-8, is what ESC [ is: a terminal obeys it. Alone it also stands behind a
 * whole character, behind a byte that is none, and behind one that was cut short. */
static void hides_eight_bit_controls_of_a_peer(void)
{
	static const char *const texts[] = { "\2332J",	       "\302\2332J",	"a\302\200",
					     "\205",	       "\302\220q",	"\377\2332J",
					     "\303\251\2332J", "\360\237\2332J" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct err e = { .code = ERR_INVALID };

		(void)snprintf(e.msg, sizeof(e.msg), "%s", texts[i]);
		err_sanitize(&e);
		CHECK_CASE(texts[i],
			   strchr(e.msg, '\233') == NULL && strchr(e.msg, '\200') == NULL &&
				   strchr(e.msg, '\205') == NULL && strchr(e.msg, '\220') == NULL);
	}
}

static void leaves_the_words_of_a_peer(void)
{
	static const char text[] = "caf\303\251: 5 \342\202\254, \360\237\230\200 and \303\233";
	struct err e = { .code = ERR_INVALID };

	(void)snprintf(e.msg, sizeof(e.msg), "%s", text);
	err_sanitize(&e);
	CHECK_STR(e.msg, text);
}

static void a_reason_has_a_name_and_sets_its_code(void)
{
	struct err e;

	for (unsigned i = 1; i < REASONS; i++) {
		const char *name = err_reason_name((enum err_reason)i);

		CHECK(err_set_reason(&e, (enum err_reason)i, "%s", name) == -1);
		CHECK_CASE(name, e.code != ERR_NONE && e.code < ERR_CODES &&
					 e.reason == (enum err_reason)i && e.sys == 0);
		for (unsigned j = 1; j < i; j++)
			CHECK_CASE(name, strcmp(name, err_reason_name((enum err_reason)j)) != 0);
	}
	CHECK(err_set(&e, ERR_LIMIT, "x") == -1 && e.reason == REASON_NONE);
	e.reason = REASON_GONE;
	CHECK(err_sys(&e, "x") == -1 && e.reason == REASON_NONE);
	e.reason = REASON_GONE;
	CHECK(err_wrap(&e, "y") == -1 && e.reason == REASON_GONE);
}

static void a_peer_has_no_reason_of_its_own(void)
{
	struct err e = { .code = ERR_INVALID, .reason = (enum err_reason)999 };

	err_sanitize(&e);
	CHECK(e.reason == REASON_NONE);
}

TEST_MAIN({ "has a name for every code", has_a_name_for_every_code }, { "sets", sets },
	  { "appends the system's words", appends_the_system_s_words },
	  { "puts the context in front", puts_the_context_in_front },
	  { "stays within its bounds", stays_within_its_bounds },
	  { "wrapping does not leak the stack", wrap_does_not_leak_the_stack },
	  { "makes codes of a peer real", makes_codes_of_a_peer_real },
	  { "ends the message of a peer", ends_the_message_of_a_peer },
	  { "hides control bytes of a peer", hides_control_bytes_of_a_peer },
	  { "hides eight-bit controls of a peer", hides_eight_bit_controls_of_a_peer },
	  { "leaves the words of a peer", leaves_the_words_of_a_peer },
	  { "a reason has a name and sets its code", a_reason_has_a_name_and_sets_its_code },
	  { "a peer has no reason of its own", a_peer_has_no_reason_of_its_own })
