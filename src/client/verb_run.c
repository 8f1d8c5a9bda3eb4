/* verb_run.c - `cordon run --server`: a session for one command.
 *
 * Whatever happens after the session was created, it is deleted; so the signals that could end this
 * program between the two are blocked all the time (while the command runs, attach.c reads them
 * from a descriptor). Ctrl-\ still ends it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "code_results.h"
#include "exec.h"
#include "create.h"
#include "member.h"
#include "show_json.h"
#include "attach.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	struct create_options make;
	struct exec_options exec;
	bool server;	  /* selects this verb */
	bool interactive; /* changes nothing: input is always passed on */
	const char *result;
};

/* clang-format off */
static const struct option options[] = {
	{ "server", NULL, OPTION_FLAG, offsetof(struct fields, server), 0, 0,
	  "must come first; which server: CORDON_SERVER" },
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct fields, interactive), 0, 0,
	  "changes nothing: input is always passed on; so that -it works here, too", 'i' },
	CREATE_OPTIONS(struct fields),
	EXEC_OPTIONS(struct fields),
	{ "result", "FILE", OPTION_TEXT, offsetof(struct fields, result), 0, 0,
	  "writes the result of the command as one JSON object" },
	{ "json", NULL, OPTION_FLAG, offsetof(struct fields, common.json), 0, 0,
	  "prints the result of the command to stderr" },
	ARGS_CONNECTION(struct fields),
};
/* clang-format on */

static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static int use(const struct fields *f, struct api_call *a, const char *session,
	       const struct exec_command *c, json_t **ret, struct err *e)
{
	char id[ID_MATCH_ID_MAX];
	struct attach_options o = {
		.session = session, .execution = id, .input = true, .tty = f->exec.tty
	};
	OWN_JSON *started = NULL;
	struct code_results results;
	int code;

	code_results_init(&results, f->exec.save_dir);
	o.on_results = code_results_take;
	o.results_arg = &results;
	o.input = c->code == NULL;
	if (exec_command(a, session, &f->exec, c, id, &started, e) < 0)
		return -1;
	code = attach_run(&o, a, ret, e);
	code_results_release(&results);
	return code;
}

static int run_once(const struct fields *f, const json_t *body, const struct exec_command *c,
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
	result = use(f, &a, member_text(session, "id", ""), c, ret, e);
	id_match_target(&t, member_text(session, "id", ""), NULL);
	if (api_call_json(&a, "DELETE", &t, NULL, NULL, &later) < 0 && result == 0) {
		*e = later;
		return err_wrap(e, "the session could not be deleted");
	}
	return result;
}

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

static int run(int argc, char **argv)
{
	static struct fields f;
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
	body = create_body(&f.make, &e);
	if (body == NULL)
		return args_refused(&verb_run, &e);
	if (open_result(f.result, &result, &e) < 0)
		return args_fail(&e);
	command = (struct exec_command){ .argv = words, .argc = n, .input = true };
	OWN_MEM char *text = NULL;

	if (exec_code(&f.exec, &command, &text, &e) < 0)
		return args_refused(&verb_run, &e);
	ended = run_once(&f, body, &command, &execution, &e);
	if (ended < 0)
		code = args_fail(&e);
	else
		code = exec_exit_code(execution, command.code == NULL ? command.argv[0] : NULL);
	if (f.common.json && execution != NULL)
		show_json(execution, true, stderr);
	if (result != NULL) {
		show_json(execution, true, result);
		if (fclose(result) != 0)
			code = ARGS_FAILED;
	}
	return code;
}

const struct verb verb_run = {
	.name = "run",
	.usage = "--server [options] -- command [args]",
	.summary = "Runs one command in a session of its own, which is deleted at the end.",
	.text = "As `cordon run` without --server, and with the same exit codes.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
