/* The table of states is the one of doc/sessions.md, transition by transition. */
#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "session.h"
#include "session_states.h"
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
		for (int s = 0; s < SESSION_STOPPING; s++)
			allowed[s][target] = true;
		(*rows)++;
	} else if (find(from) >= 0) {
		allowed[find(from)][target] = true;
		(*rows)++;
	}
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
	CHECK(rows >= 9);
	for (int from = 0; from < SESSION_STATES; from++)
		for (int to = 0; to < SESSION_STATES; to++) {
			bool real = session_states_allow((enum session_state)from,
							 (enum session_state)to);

			if (real != allowed[from][to])
				printf("# %s -> %s\n", session_state_name((enum session_state)from),
				       session_state_name((enum session_state)to));
			CHECK(real == allowed[from][to]);
		}
}

static void nothing_leaves_stopped(void)
{
	for (int to = 0; to < SESSION_STATES; to++)
		CHECK(!session_states_allow(SESSION_STOPPED, (enum session_state)to));
	CHECK(!session_states_allow(SESSION_STATES, SESSION_RUNNING));
	CHECK(!session_states_allow(SESSION_RUNNING, SESSION_STATES));
}

static void names(void)
{
	CHECK(strcmp(session_state_name(SESSION_STATES), "unknown") == 0);
	CHECK(strcmp(session_reason_name(SESSION_HOST_RESTART), "host_restart") == 0);
	CHECK(strcmp(session_reason_name(SESSION_NO_REASON), "") == 0);
}

TEST_MAIN({ "the document says the same", the_document_says_the_same },
	  { "nothing leaves stopped", nothing_leaves_stopped }, { "names", names })
