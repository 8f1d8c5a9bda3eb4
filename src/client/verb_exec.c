/* verb_exec.c - cordon exec and cordon attach: starts a command in a session, or attaches to a
 * running one. */
#include <string.h>

#include "code_results.h"
#include "exec.h"
#include "member.h"
#include "id_match.h"
#include "show.h"
#include "show_json.h"
#include "attach.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	struct exec_options exec;
	bool interactive, detach;
};

/* clang-format off */
static const struct option exec_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct fields, interactive), 0, 0,
	  "sends standard input to the command", 'i' },
	{ "detach", NULL, OPTION_FLAG, offsetof(struct fields, detach), 0, 0,
	  "does not wait: prints the execution's id", 'd' },
	{ "secret", "NAME[=WAY]", OPTION_LIST, offsetof(struct fields, exec.secrets), 0, 0,
	  "a secret that only this command has: NAME=broker:VAR, env:VAR or file:NAME" },
	EXEC_OPTIONS(struct fields),
	ARGS_COMMON(struct fields),
};

static const struct option attach_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct fields, interactive), 0, 0,
	  "sends standard input to the command, also without a terminal", 'i' },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* Where the client was attached to; for `cordon attach`. */
static char attached_session[ID_MATCH_ID_MAX], attached_execution[ID_MATCH_ID_MAX];

/* Prints the result with --json. execution is NULL if the client detached. */
static int finish(const struct fields *f, const json_t *execution, const char *program)
{
	if (execution == NULL) {
		(void)fprintf(stderr,
			      "cordon: detached; the command is still running: cordon attach %s "
			      "%s\n",
			      attached_session, attached_execution);
		return ARGS_OK;
	}
	if (f->common.json)
		show_json(execution, true, stderr);
	return exec_exit_code(execution, program);
}

static int run_command(const struct fields *f, const char *word, struct exec_command *c,
		       json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *started = NULL;
	char *session = attached_session, *id = attached_execution;
	bool input = f->interactive || f->exec.tty;
	struct attach_options o = { .session = session,
				    .execution = id,
				    .input = input,
				    .tty = f->exec.tty,
				    .may_detach = f->exec.tty };

	struct code_results results;
	int code;

	code_results_init(&results, f->exec.save_dir);
	o.on_results = code_results_take;
	o.results_arg = &results;
	o.input = input = input && c->code == NULL;
	c->input = input && !f->detach;
	c->background = f->detach;
	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, session, e) < 0 ||
	    exec_command(&a, session, &f->exec, c, id, &started, e) < 0)
		return -1;
	if (!f->detach) {
		code = attach_run(&o, &a, ret, e);
		code_results_release(&results);
		if (code == 0 && *ret != NULL && c->code != NULL && f->common.json)
			code = exec_with_results(&a, ret, e);
		return code;
	}
	*ret = json_incref(started);
	return 0;
}

/* Options are taken after SESSION, too: no command begins with a dash. */
static int read_more_options(struct fields *f, char **words, size_t n, size_t *at)
{
	char **rest = NULL;
	size_t left = 0;
	int code;

	if (n < 2 || words[1][0] != '-')
		return ARGS_GO;
	code = args_read_command(&verb_exec, (int)n - 1, words + 1, f, &rest, &left);
	*at = n - left;
	return code;
}

static int run_exec(int argc, char **argv)
{
	static struct fields f;
	OWN_JSON *execution = NULL;
	struct exec_command command;
	struct err e = { 0 };
	char **words = NULL;
	size_t n = 0, at = 1;
	int code = args_read_command(&verb_exec, argc, argv, &f, &words, &n);

	if (code != ARGS_GO)
		return code;
	code = read_more_options(&f, words, n, &at);
	if (code != ARGS_GO)
		return code;
	if (n <= at)
		return args_wrong(&verb_exec, "a session and a command are needed");
	command = (struct exec_command){ .argv = words + at, .argc = n - at };
	OWN_MEM char *text = NULL;

	if (exec_code(&f.exec, &command, &text, &e) < 0)
		return args_refused(&verb_exec, &e);
	if (run_command(&f, words[0], &command, &execution, &e) < 0)
		return args_fail(&e);
	if (!f.detach)
		return finish(&f, execution, command.code == NULL ? command.argv[0] : NULL);
	if (f.common.json) {
		show_json(execution, true, stdout);
	} else {
		show_text(member_text(execution, "id", ""), stdout);
		(void)putchar('\n');
	}
	return ARGS_OK;
}

const struct verb verb_exec = {
	.name = "exec",
	.usage = "[options] SESSION -- command [args]",
	.summary = "Runs a command in a session and passes its output and exit code through.",
	.text = "Interrupts are sent to the command; the third one ends cordon and leaves the "
		"command\n"
		"running. Ctrl-] detaches from a terminal; cordon attach comes back to it.\n"
		"If the server restarts, the command continues, and cordon reconnects.\n"
		"With --lang the code is given instead of a command (- reads it from standard "
		"input): "
		"exec --lang\n"
		"python ID -- 'print(1)'. The text of its results is printed.\n"
		"With --json, the result of the command is printed to stderr.\n"
		"exit code: the command's own; 128+n if it was killed by signal n; 124 timeout;\n"
		"125 Cordon itself failed; 126 not executable; 127 not found.\n",
	.options = exec_options,
	.noptions = COUNT(exec_options),
	.run = run_exec,
};

static int attach(const struct fields *f, const struct args_words *words, json_t **ret,
		  struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *execution = NULL;
	char *session = attached_session, *id = attached_execution;
	struct attach_options o = { .session = session, .execution = id, .may_detach = true };
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, words->at[0], session, e) < 0 ||
	    id_match_execution(&a, session, words->n > 1 ? words->at[1] : NULL, id, e) < 0)
		return -1;
	id_match_execution_target(&t, session, id, NULL);
	if (api_call_json(&a, "GET", &t, NULL, &execution, e) < 0)
		return -1;
	o.tty = member_bool(execution, "tty");
	o.input = o.tty || f->interactive;
	return attach_run(&o, &a, ret, e);
}

static int run_attach(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_JSON *execution = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_attach, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	if (attach(&f, &words, &execution, &e) < 0)
		return args_fail(&e);
	return finish(&f, execution, NULL);
}

const struct verb verb_attach = {
	.name = "attach",
	.usage = "[options] SESSION [EXECUTION]",
	.summary = "Attaches to a running command: its output from the start, and its terminal.",
	.text = "Several clients may attach to one command, and each may send input. Ctrl-] "
		"detaches;\n"
		"the command continues. Without EXECUTION: the last one that was started.\n",
	.options = attach_options,
	.noptions = COUNT(attach_options),
	.run = run_attach,
};
