/* What the core keeps of an execution's command, and of what a session has used of its limits. */
#include "lib/policy/access_record_text.h"
#include "bed.h"
#include "daemon/node/core_private.h"
#include "daemon/execution/execution.h"
#include "lib/json/json.h"
#include "lib/mask/mask_private.h"
#include "daemon/egressctl/net_usage.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/tenant/record_quota.h"
#include "daemon/session/session.h"

#include <stdio.h>
#include <string.h>

#define VALUE "Zq7#Zq8#Zq9#Zq0#"
#define LONG_COMMAND ((size_t)1 << 20)

/* ---- commands */

/* Each character in the longest of its forms. */
static void spell_long(char *to)
{
	char one[MASK_ESCAPE_MAX + 1];

	for (size_t i = 0; i < strlen(VALUE); i++, to += MASK_ESCAPE_MAX) {
		(void)snprintf(one, sizeof(one), "&#x0000%02x;", (unsigned)(unsigned char)VALUE[i]);
		memcpy(to, one, MASK_ESCAPE_MAX);
	}
}

/* Each character, and a lot of line breaks. */
static void spell_broken(char *to)
{
	for (size_t i = 0; i < strlen(VALUE); i++, to += 1001) {
		*to = VALUE[i];
		memset(to + 1, '\n', 1000);
	}
}

static void spell_plain(char *to)
{
	memcpy(to, VALUE, strlen(VALUE));
}

/* One whose text is long, with a value that begins so many bytes before the end of what is kept. */
static const char *kept_of(char *text, void (*spell)(char *), size_t before)
{
	static const char strings[] = "true";
	struct execution_spec spec = { .argc = 1,
				       .strings = strings,
				       .strings_len = sizeof(strings),
				       .text = text,
				       .keep_text = true };
	struct execution *x;
	struct err e;

	memset(text, '.', LONG_COMMAND);
	text[LONG_COMMAND] = '\0';
	spell(text + RECORD_TEXT_MAX - before);
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	return x->row.command;
}

static void a_long_command_is_covered_up_to_its_cut(void)
{
	void (*const spells[])(char *) = { spell_plain, spell_long, spell_broken };
	const char *const values[] = { VALUE };
	const size_t lens[] = { strlen(VALUE) };
	char *text = malloc(LONG_COMMAND + 1);
	struct mask *m;
	struct err e;

	CHECK(text != NULL);
	bed_make(30000);
	bed_session();
	m = session_mask_make(bed.session, values, lens, 1, &e);
	CHECK(m != NULL);
	session_mask_set(bed.session, m);
	for (size_t i = 0; i < COUNT(spells); i++) {
		const char *kept = kept_of(text, spells[i], 9);

		CHECK(strlen(kept) == RECORD_TEXT_MAX);
		CHECK_STR(kept + RECORD_TEXT_MAX - 12, "...******...");
		/* what is not kept costs nothing */
		CHECK(m->scratch->at < 32768);
	}
	bed_delete();
	free(text);
	bed_end();
}

static void a_short_command_is_kept(void)
{
	static const char strings[] = "true";
	struct execution_spec spec = { .argc = 1,
				       .strings = strings,
				       .strings_len = sizeof(strings),
				       .text = "true",
				       .keep_text = true };
	struct execution *x;
	struct err e;

	bed_make(30000);
	bed_session();
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	CHECK_STR(x->row.command, "true");
	bed_delete();
	bed_end();
}

/* ---- what was used */

/* As many rules as egress tells of, and the session's own. */
static void as_many_rules_as_egress_remembers(void)
{
	struct record_counts now = { .own = { .in = 1, .out = 2 }, .nrules = 1 };
	struct json j;
	struct err e;

	bed_make(30000);
	bed_session();
	for (unsigned i = 0; i <= EGRESS_RULES_KEPT_MAX; i++) {
		(void)snprintf(now.rules[0].rule, sizeof(now.rules[0].rule), "rule%05u", i);
		now.rules[0].in = now.rules[0].out = i + 1;
		net_usage_take(bed.session, &now);
	}
	CHECK(net_session_of(bed.session)->used.n == 1 + EGRESS_RULES_KEPT_MAX);
	json_init_heap(&j, (size_t)4 << 20);
	json_open(&j, NULL, '{');
	CHECK(net_usage_write(bed.session, &j, &e) == 0);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	CHECK(strstr(j.text, "\"rule08191\",\"claimed_in\":8192,") != NULL);
	CHECK(strstr(j.text, "\"rule08192\"") == NULL);
	json_release(&j);
	bed_delete();
	bed_end();
}

TEST_MAIN({ "a long command is covered up to its cut", a_long_command_is_covered_up_to_its_cut },
	  { "a short command is kept", a_short_command_is_kept },
	  { "as many rules as egress remembers", as_many_rules_as_egress_remembers })
