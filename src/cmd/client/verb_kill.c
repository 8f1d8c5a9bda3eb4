/* verb_kill.c - cordon kill: ends or signals an execution, or ends one process by its pid. */
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/compose.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/verbs.h"

/* A word of digits is a pid, any other word the beginning of an execution's id. A pid is that
 * inside the session, as `cordon ps` prints it. */
struct kill_fields {
	struct args_common common;
	const char *signal;
};

/* clang-format off */
static const struct option options[] = {
	{ "signal", "NAME", OPTION_TEXT, offsetof(struct kill_fields, signal), 0, 0,
	  "sends only this signal, to the execution's first process", 's', .values = "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT" },
	ARGS_COMMON(struct kill_fields),
};
/* clang-format on */

/* Without a signal the execution ends with all its processes. With one only its first process
 * gets the signal, and the others may continue. */
static int kill_one(const struct kill_fields *f, const struct args_words *words, struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *body = json_object();
	char session[ID_MATCH_ID_MAX], id[ID_MATCH_ID_MAX];
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, words->at[0], session, e) < 0)
		return -1;
	if (words->at[1][strspn(words->at[1], "0123456789")] == '\0') {
		if (f->signal != NULL)
			return err_set(e, ERR_INVALID,
				       "--signal: only for executions, not for pids");
		id_match_target(&t, session, "processes");
		target_part(&t, words->at[1]);
		return api_call_json(&a, "DELETE", &t, NULL, NULL, e);
	}
	if (id_match_execution(&a, session, words->at[1], id, e) < 0)
		return -1;
	id_match_execution_target(&t, session, id, f->signal == NULL ? NULL : "signals");
	if (f->signal == NULL)
		return api_call_json(&a, "DELETE", &t, NULL, NULL, e);
	if (compose_text(body, "signal", "--signal", f->signal, e) < 0)
		return -1;
	return api_call_json(&a, "POST", &t, body, NULL, e);
}

static int kill_run(int argc, char **argv)
{
	static struct kill_fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_kill, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	return kill_one(&f, &words, &e) < 0 ? args_refused(&verb_kill, &e) : ARGS_OK;
}

const struct verb verb_kill = {
	.name = "kill",
	.usage = "[options] SESSION EXECUTION|PID",
	.summary = "Ends an execution with all its processes, or one process.",
	.text = "",
	.examples = "cordon kill ID EXECUTION\n"
		    "cordon kill --signal INT ID EXECUTION\n",
	.options = options,
	.noptions = COUNT(options),
	.run = kill_run,
};
