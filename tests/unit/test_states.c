/* The table of states is the one of doc/sessions.md, transition by transition. */
#include <stdio.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_states.h"
#include "test.h"

static int find(const char *name)
{
	for (int s = 0; s < SESSION_STATES; s++)
		if (strcmp(session_state_name((enum session_state)s), name) == 0)
			return s;
	return -1;
}

/* One row "| from | to | ...": what it allows. Rows of other tables name no states. */
static void read_row(char *line, bool allowed[SESSION_STATES][SESSION_STATES], unsigned *rows)
{
	char from[32] = "", to[32] = "";
	int target;

	if (sscanf(line, "| %31[^|]| %31[^|]|", from, to) != 2)
		return;
	from[strcspn(from, " ")] = from[0] == 'a' ? ' ' : '\0';
	to[strcspn(to, " ")] = '\0';
	target = find(to);
	if (target < 0)
		return;
	if (strncmp(from, "any", 3) == 0) {
		for (int s = 0; s < SESSION_ENDING; s++)
			allowed[s][target] = true;
		allowed[SESSION_STOPPED][target] = true;
		(*rows)++;
	} else if (find(from) >= 0) {
		allowed[find(from)][target] = true;
		(*rows)++;
	}
}

/* The same for states as they are shown: a session without a cell is paused, and shown as stopped.
 */
static bool is_shown(enum session_state from, enum session_state to)
{
	if (from == SESSION_STOPPED)
		return to != SESSION_STOPPED && session_states_allow(SESSION_PAUSED, to);
	if (to == SESSION_STOPPED)
		return from == SESSION_PAUSED || session_states_allow(from, SESSION_PAUSED);
	return session_states_allow(from, to);
}

static void the_document_says_the_same(void)
{
	bool allowed[SESSION_STATES][SESSION_STATES] = { 0 };
	char line[1024];
	unsigned rows = 0;
	FILE *f = fopen(SESSIONS_MD, "re");

	CHECK(f != NULL);
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		read_row(line, allowed, &rows);
	if (f != NULL)
		(void)fclose(f);
	CHECK(rows >= 13);
	for (int from = 0; from < SESSION_STATES; from++)
		for (int to = 0; to < SESSION_STATES; to++) {
			bool real = is_shown((enum session_state)from, (enum session_state)to);

			if (real != allowed[from][to])
				printf("# %s -> %s\n", session_state_name((enum session_state)from),
				       session_state_name((enum session_state)to));
			CHECK(real == allowed[from][to]);
		}
}

static void nothing_leaves_ended(void)
{
	for (int to = 0; to < SESSION_STATES; to++)
		CHECK(!session_states_allow(SESSION_ENDED, (enum session_state)to));
	CHECK(!session_states_allow(SESSION_STATES, SESSION_RUNNING));
	CHECK(!session_states_allow(SESSION_RUNNING, SESSION_STATES));
}

static void without_a_cell_it_is_stopped(void)
{
	static const enum session_cold none[] = { COLD_YES, COLD_BLANK };
	static const enum session_cold some[] = { COLD_NO, COLD_CAPTURING, COLD_TO_CAPTURE,
						  COLD_TO_DISK, COLD_TO_RESET };
	struct store_session row = { .state = SESSION_PAUSED };

	for (size_t i = 0; i < COUNT(none); i++) {
		row.cold = none[i];
		CHECK(session_shown_state(&row) == SESSION_STOPPED);
		CHECK(strcmp(session_shown_name(&row), "stopped") == 0);
	}
	for (size_t i = 0; i < COUNT(some); i++) {
		row.cold = some[i];
		CHECK(session_shown_state(&row) == SESSION_PAUSED);
	}
	row = (struct store_session){ .state = SESSION_RESUMING, .cold = COLD_YES };
	CHECK(session_shown_state(&row) == SESSION_RESUMING);
}

static void names(void)
{
	CHECK(strcmp(session_state_name(SESSION_STATES), "unknown") == 0);
	CHECK(strcmp(session_reason_name(SESSION_HOST_RESTART), "host_restart") == 0);
	CHECK(strcmp(session_reason_name(SESSION_NO_REASON), "") == 0);
}

TEST_MAIN({ "the document says the same", the_document_says_the_same },
	  { "nothing leaves ended", nothing_leaves_ended }, { "names", names },
	  { "without a cell it is stopped", without_a_cell_it_is_stopped })
