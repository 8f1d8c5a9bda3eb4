/* verb_exec.c - commands in a session: start one, join one that runs. */
#include <string.h>

#include "launch.h"
#include "member.h"
#include "pick.h"
#include "show.h"
#include "show_json.h"
#include "talk.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	struct launch_options launch;
	bool interactive, detach;
};

/* clang-format off */
static const struct option exec_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct fields, interactive), 0, 0,
	  "passes our input on", 'i' },
	{ "detach", NULL, OPTION_FLAG, offsetof(struct fields, detach), 0, 0,
	  "does not wait: prints the execution's id", 'd' },
	LAUNCH_OPTIONS(struct fields),
	ARGS_COMMON(struct fields),
};

static const struct option attach_options[] = {
	{ "interactive", NULL, OPTION_FLAG, offsetof(struct fields, interactive), 0, 0,
	  "passes our input on, also without a terminal", 'i' },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

/* How a command ended, for --json; or where it was left. */
static int finish(const struct fields *f, const json_t *execution)
{
	if (execution == NULL) {
		(void)fputs("cordon: left it running\n", stderr);
		return ARGS_OK;
	}
	if (f->common.json)
		show_json(execution, true, stderr);
	return launch_exit_code(execution);
}

static int exec_command(const struct fields *f, const char *word, struct launch_command *c,
			json_t **ret, struct err *e)
{
	OWN_ASK a = { 0 };
	OWN_JSON *started = NULL;
	char session[PICK_ID_MAX], id[PICK_ID_MAX];
	bool input = f->interactive || f->launch.tty;
	struct talk_options o = {
		.session = session, .execution = id, .input = input, .tty = f->launch.tty
	};

	c->input = input && !f->detach;
	c->background = f->detach;
	if (ask_open(&a, &f->common, ASK_PATIENCE_MS, e) < 0 ||
	    pick_session(&a, word, session, e) < 0 ||
	    launch_command(&a, session, &f->launch, c, id, &started, e) < 0)
		return -1;
	if (!f->detach)
		return talk_run(&o, &a, ret, e);
	*ret = json_incref(started);
	return 0;
}

static int run_exec(int argc, char **argv)
{
	static struct fields f;
	OWN_JSON *execution = NULL;
	struct launch_command command;
	struct err e = { 0 };
	char **words = NULL;
	size_t n = 0, at = 1;
	int code = args_read_command(&verb_exec, argc, argv, &f, &words, &n);

	if (code != ARGS_GO)
		return code;
	if (n > 1 && strcmp(words[1], "--") == 0)
		at = 2;
	if (n <= at)
		return args_wrong(&verb_exec, "a session and a command are needed");
	command = (struct launch_command){ .argv = words + at, .argc = n - at };
	if (exec_command(&f, words[0], &command, &execution, &e) < 0)
		return args_fail(&e);
	if (!f.detach)
		return finish(&f, execution);
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
	.text = "Interrupts are passed on to the command; the third one leaves it. If the server "
		"is\n"
		"restarted meanwhile, the command goes on and so does its output here.\n"
		"With --json, how it ended is printed to stderr.\n"
		"exit code: the command's own; 128+n if it was killed by signal n; 124 timeout;\n"
		"125 Cordon itself failed; 126 not executable; 127 not found.\n",
	.options = exec_options,
	.noptions = COUNT(exec_options),
	.run = run_exec,
};

static int attach(const struct fields *f, const struct args_words *words, json_t **ret,
		  struct err *e)
{
	OWN_ASK a = { 0 };
	OWN_JSON *execution = NULL;
	char session[PICK_ID_MAX], id[PICK_ID_MAX];
	struct talk_options o = { .session = session, .execution = id, .may_detach = true };
	struct target t;

	if (ask_open(&a, &f->common, ASK_PATIENCE_MS, e) < 0 ||
	    pick_session(&a, words->at[0], session, e) < 0 ||
	    pick_execution(&a, session, words->at[1], id, e) < 0)
		return -1;
	pick_execution_target(&t, session, id, NULL);
	if (ask_json(&a, "GET", &t, NULL, &execution, e) < 0)
		return -1;
	o.tty = member_bool(execution, "tty");
	o.input = o.tty || f->interactive;
	return talk_run(&o, &a, ret, e);
}

static int run_attach(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_JSON *execution = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_attach, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	if (attach(&f, &words, &execution, &e) < 0)
		return args_fail(&e);
	return finish(&f, execution);
}

const struct verb verb_attach = {
	.name = "attach",
	.usage = "[options] SESSION EXECUTION",
	.summary = "Joins a command that runs: all its output from the start, and its terminal.",
	.text = "Several may watch, and all may type. Ctrl-] leaves it running.\n",
	.options = attach_options,
	.noptions = COUNT(attach_options),
	.run = run_attach,
};
