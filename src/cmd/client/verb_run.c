/* verb_run.c - `cordon run --server`: a session for one command.
 *
 * The session is deleted in any case after its creation. So the signals that could end this program
 * between the two are blocked all the time (while the command runs, attach.c reads them from a
 * descriptor). Ctrl-\ still ends it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "cmd/client/attach.h"
#include "cmd/client/code_results.h"
#include "cmd/client/create.h"
#include "cmd/client/exec.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* ---- cordon exec and cordon attach: starts a command in a session, or attaches to a
 * running one. */

/* The fields of exec and attach. */
struct verb_exec_fields {
	struct args_common common;
	struct exec_options exec;
	bool interactive, detach;
};

/* clang-format off */
static const struct option exec_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct verb_exec_fields, interactive), 0, 0,
	  "sends standard input to the command", 'i' },
	{ "detach", NULL, OPTION_FLAG, offsetof(struct verb_exec_fields, detach), 0, 0,
	  "does not wait: prints the execution's id", 'd' },
	{ "secret", "NAME[=WAY]", OPTION_LIST, offsetof(struct verb_exec_fields, exec.secrets), 0, 0,
	  "a secret that only this command has: NAME=broker:VAR, env:VAR or file:NAME", .values = "@secrets" },
	EXEC_OPTIONS(struct verb_exec_fields),
	ARGS_COMMON(struct verb_exec_fields),
};

static const struct option attach_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct verb_exec_fields, interactive), 0, 0,
	  "sends standard input to the command, also without a terminal", 'i' },
	ARGS_COMMON(struct verb_exec_fields),
};
/* clang-format on */

/* Where the client was attached to, for `cordon attach`. */
static char attached_session[ID_MATCH_ID_MAX], attached_execution[ID_MATCH_ID_MAX];

/* ---- the result of a command, for --json and --result. */

/* Opened before anything happens: a result that cannot be written is reported at once. */
static int open_result(const char *path, FILE **ret, struct err *e)
{
	bool out = path != NULL && strcmp(path, "-") == 0;
	int fd = path == NULL ? -1
		 : out	      ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
			      : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	*ret = fd < 0 ? NULL : fdopen(fd, "w");
	if (path != NULL && *ret == NULL)
		return err_sys(e, "--result %.120s", path);
	return 0;
}

/* Close the file. False: it could not be written. Then the exit code is a failure, even if the
 * command was good, because a script would read an empty result. */
static bool write_result(FILE *result, const json_t *execution)
{
	if (result == NULL)
		return true;
	show_json(execution, true, result);
	return fclose(result) == 0;
}

/* --json: the output is a part of the JSON, as in the answer of the API. With a terminal the
 * output goes to the screen, so the two exclude each other. */
static int check_json(const struct args_common *common, bool tty, struct err *e)
{
	if (common->json && tty)
		return err_set(e, ERR_INVALID,
			       "--json: not with a terminal; --result FILE writes the result");
	return 0;
}

/* attach_run() with the options for output and results. With --json the output is kept and added
 * to the execution, which then also gets the results of code. Return ATTACH_ENDED,
 * ATTACH_DETACHED or -1. *ret is owned by the caller. */
static int attach_as_asked(struct attach_options *o, const struct args_common *common,
			   const char *save_dir, bool is_code, struct api_call *a, json_t **ret,
			   struct err *e)
{
	struct code_results results;
	struct kept_output kept;
	int code;

	kept_output_init(&kept);
	code_results_init(&results, save_dir, common->json);
	o->on_results = code_results_take;
	o->results_arg = &results;
	o->kept = common->json ? &kept : NULL;
	code = attach_run(o, a, ret, e);
	code_results_release(&results);
	if (code == ATTACH_ENDED && common->json && is_code)
		code = exec_with_results(a, ret, e);
	if (code == ATTACH_ENDED && common->json)
		code = kept_output_add(&kept, *ret, e);
	kept_output_release(&kept);
	return code;
}

/* Print the result with --json. execution is NULL if the client detached. */
static int run_finish(const struct verb_exec_fields *f, const json_t *execution,
		      const char *program)
{
	if (execution == NULL) {
		(void)fprintf(stderr,
			      "cordon: detached; the command is still running: cordon attach %s "
			      "%s\n",
			      attached_session, attached_execution);
		return ARGS_OK;
	}
	if (f->common.json)
		show_json(execution, true, stdout);
	return exec_exit_code(execution, program);
}

/* Find the session, start the command and attach to it, unless --detach is given. A terminal
 * always has input. Code never has. */
static int run_command(const struct verb_exec_fields *f, const char *word, struct exec_command *c,
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

	o.input = input = input && c->code == NULL;
	c->input = input && !f->detach;
	c->background = f->detach;
	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, session, e) < 0 ||
	    exec_command(&a, session, &f->exec, c, id, &started, e) < 0)
		return -1;
	if (!f->detach)
		return attach_as_asked(&o, &f->common, f->exec.save_dir, c->code != NULL, &a, ret,
				       e);
	*ret = json_incref(started);
	return 0;
}

/* Options are taken after SESSION, too: no command begins with a dash. *at is the place of the
 * first word of the command. */
static int read_more_options(struct verb_exec_fields *f, char **words, size_t n, size_t *at)
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

/* The result file is opened before the command starts, and the code is read before that. Each
 * error until then is wrong use: nothing was started. */
static int run_exec(int argc, char **argv)
{
	static struct verb_exec_fields f;
	OWN_JSON *execution = NULL;
	struct exec_command command;
	struct err e = { 0 };
	char **words = NULL;
	FILE *result = NULL;
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

	if (exec_code(&f.exec, &command, &text, &e) < 0 ||
	    check_json(&f.common, f.exec.tty, &e) < 0 ||
	    open_result(f.exec.result, &result, &e) < 0)
		return args_fail_command(&verb_exec, &e);
	if (run_command(&f, words[0], &command, &execution, &e) < 0)
		return args_fail_command(&verb_exec, &e);
	if (!f.detach)
		code = run_finish(&f, execution, command.code == NULL ? command.argv[0] : NULL);
	if (!write_result(result, execution))
		return ARGS_FAILED;
	if (!f.detach)
		return code;
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
		"With --json the result is printed as one JSON object, with the output of the "
		"command in it (up\n"
		"to 1 MiB of each stream). --result FILE leaves the output as it is.\n"
		"exit code: the command's own; 128+n if it was killed by signal n; 124 timeout;\n"
		"125 Cordon itself failed; 126 not executable; 127 not found; 2 wrong options.\n",
	.examples = "cordon exec ID -- ls -l\n"
		    "cordon exec -t ID -- bash                   # a terminal; Ctrl-] leaves it\n"
		    "cordon exec -i ID -- tar x < files.tar\n"
		    "cordon exec --lang python ID 'print(1 + 1)'\n"
		    "cordon exec --json ID -- true | jq .wall_ms\n",
	.options = exec_options,
	.noptions = COUNT(exec_options),
	.run = run_exec,
};

/* The execution itself says whether it has a terminal. Without one, input is sent only with
 * --interactive. */
static int verb_run_attach(const struct verb_exec_fields *f, const struct args_words *words,
			   json_t **ret, struct err *e)
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
	if (check_json(&f->common, o.tty, e) < 0)
		return -1;
	return attach_as_asked(&o, &f->common, NULL, false, &a, ret, e);
}

/* The exit code is that of the command, also if it had ended before. */
static int run_attach(int argc, char **argv)
{
	static struct verb_exec_fields f;
	static struct args_words words;
	OWN_JSON *execution = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_attach, argc, argv, &f, &words, 1, 2);

	if (code != ARGS_GO)
		return code;
	if (verb_run_attach(&f, &words, &execution, &e) < 0)
		return args_fail_command(&verb_attach, &e);
	return run_finish(&f, execution, NULL);
}

const struct verb verb_attach = {
	.name = "attach",
	.usage = "[options] SESSION [EXECUTION]",
	.summary = "Attaches to a running command: its output from the start, and its terminal.",
	.text = "Several clients may attach to one command, and each may send input. Ctrl-] "
		"detaches;\n"
		"the command continues. Without EXECUTION: the last one that was started.\n",
	.examples = "cordon attach ID\n",
	.options = attach_options,
	.noptions = COUNT(attach_options),
	.run = run_attach,
};

/* The options of create and exec together. --server is a flag here: it selects this verb in the
 * other program. */
struct run_fields {
	struct args_common common;
	struct create_options make;
	struct exec_options exec;
	bool server;	  /* selects this verb */
	bool interactive; /* changes nothing: input is always passed on */
};

/* clang-format off */
static const struct option options[] = {
	{ "server", NULL, OPTION_FLAG, offsetof(struct run_fields, server), 0, 0,
	  "must come first; which server: CORDON_SERVER" },
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct run_fields, interactive), 0, 0,
	  "changes nothing: input is always passed on; so that -it works here, too", 'i' },
	CREATE_OPTIONS(struct run_fields),
	EXEC_OPTIONS(struct run_fields),
	{ "json", NULL, OPTION_FLAG, offsetof(struct run_fields, common.json), 0, 0,
	  "prints the result of the command, with its output in it, as one JSON object" },
	ARGS_CONNECTION(struct run_fields),
};
/* clang-format on */

/* Blocked and never unblocked: the session must be deleted before this program ends. */
static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Input is always passed on, except for code. */
static int run_use(const struct run_fields *f, struct api_call *a, const char *session,
		   const struct exec_command *c, json_t **ret, struct err *e)
{
	char id[ID_MATCH_ID_MAX];
	struct attach_options o = {
		.session = session, .execution = id, .input = true, .tty = f->exec.tty
	};
	OWN_JSON *started = NULL;

	o.input = c->code == NULL;
	if (exec_command(a, session, &f->exec, c, id, &started, e) < 0)
		return -1;
	return attach_as_asked(&o, &f->common, f->exec.save_dir, c->code != NULL, a, ret, e);
}

/* Create, use, delete. The deletion follows also after a failure of the command, and its own
 * error counts only if there was none before. */
static int run_once(const struct run_fields *f, const json_t *body, const struct exec_command *c,
		    json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *session = NULL;
	struct err later = { 0 };
	struct target t;
	int result;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0)
		return -1;
	block_signals();
	if (create_session(&a, body, &session, e) < 0)
		return -1;
	result = run_use(f, &a, member_text(session, "id", ""), c, ret, e);
	id_match_target(&t, member_text(session, "id", ""), NULL);
	if (api_call_json(&a, "DELETE", &t, NULL, NULL, &later) < 0 && result == 0) {
		*e = later;
		return err_wrap(e, "the session could not be deleted");
	}
	return result;
}

/* All mistakes of the command line show before the session exists. */
static int verb_run_run(int argc, char **argv)
{
	static struct run_fields f;
	OWN_JSON *execution = NULL;
	OWN_JSON *body = NULL;
	struct err e = { 0 };
	char **words = NULL;
	struct exec_command command;
	FILE *result = NULL;
	size_t n = 0;
	int code = args_read_command(&verb_run, argc, argv, &f, &words, &n), ended;

	if (code != ARGS_GO)
		return code;
	if (n == 0)
		return args_wrong(&verb_run, "no command given");
	body = create_body(&verb_run, &f, &f.make, &e);
	if (body == NULL)
		return args_fail_command(&verb_run, &e);
	if (check_json(&f.common, f.exec.tty, &e) < 0 ||
	    open_result(f.exec.result, &result, &e) < 0)
		return args_fail_command(&verb_run, &e);
	command = (struct exec_command){ .argv = words, .argc = n, .input = true };
	OWN_MEM char *text = NULL;

	if (exec_code(&f.exec, &command, &text, &e) < 0)
		return args_fail_command(&verb_run, &e);
	ended = run_once(&f, body, &command, &execution, &e);
	if (ended < 0)
		code = args_fail_command(&verb_run, &e);
	else
		code = exec_exit_code(execution, command.code == NULL ? command.argv[0] : NULL);
	if (f.common.json && execution != NULL)
		show_json(execution, true, stdout);
	return write_result(result, execution) ? code : ARGS_FAILED;
}

const struct verb verb_run = {
	.name = "run",
	.usage = "--server [options] -- command [args]",
	.summary = "Runs one command in a session of its own, which is deleted at the end.",
	.text = "As `cordon run` without --server, and with the same exit codes.\n",
	.examples =
		"cordon run --server -- sh -c 'echo hello from $(hostname)'\n"
		"cordon run --server --template python --policy pypi -- pip download requests\n",
	.options = options,
	.noptions = COUNT(options),
	.run = verb_run_run,
};
