/* exec.c - see exec.h. The first part prints refused hosts and their remedies, the second builds
 * the request for a command or for code, the third turns an ended execution into messages and an
 * exit code. */
#include "cmd/client/exec.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/base/terminal.h"
#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_allow.h"

/* ---- after a command: the hosts that the network policy refused, and the rules that would allow
 * them. The network is closed by default, and programs say that in many ways, or not at all. */

#define HOSTS_SHOWN 3
/* The shortest option that would allow the host: a preset for known registries, else the host
 * itself. A name that is no valid host is not repeated. */
static void say_option(const char *name)
{
	const char *preset = policy_allow_preset(name);

	if (preset != NULL)
		(void)fprintf(stderr, " --policy %s", preset);
	else
		(void)fprintf(stderr, " --allow %s", policy_allow_is_host(name) ? name : "HOST");
}

/* A name from the execution's list of refused hosts. */
static const char *name_at(const json_t *denied, size_t i)
{
	return member_text(json_array_get(denied, i), "name", "?");
}

/* A rule denies it, which no other rule changes. Or an earlier host got the same option. */
static bool is_left_out(const json_t *denied, size_t i)
{
	const char *preset = policy_allow_preset(name_at(denied, i));

	if (json_is_null(json_object_get(json_array_get(denied, i), "allow")))
		return policy_allow_is_host(name_at(denied, i));
	for (size_t k = 0; k < i && preset != NULL; k++)
		if (policy_allow_preset(name_at(denied, k)) == preset)
			return true;
	return false;
}

/* Print a line on stderr if the execution was refused a host. */
static void denied_say(const json_t *execution)
{
	const json_t *denied = member_group(execution, "denied");
	size_t n = json_array_size(denied), shown = n < HOSTS_SHOWN ? n : HOSTS_SHOWN, said = 0;

	if (n == 0)
		return;
	(void)fprintf(stderr, "cordon: the network policy refused %zu host%s (", n,
		      n == 1 ? "" : "s");
	for (size_t i = 0; i < shown; i++) {
		(void)fputs(i == 0 ? "" : ", ", stderr);
		show_text(name_at(denied, i), stderr);
	}
	(void)fputs(n > shown ? ", ...): cordon net " : "): cordon net ", stderr);
	show_text(member_text(execution, "session_id", "ID"), stderr);
	for (size_t i = 0; i < shown; i++) {
		if (is_left_out(denied, i))
			continue;
		(void)fputs(said++ == 0 ? "; what allows them:" : "", stderr);
		say_option(name_at(denied, i));
	}
	(void)fputs("\n", stderr);
}

#define CODE_MAX (16U << 20)
#define EXIT_NOT_FOUND 127

/* The server's default is to keep a hash. A person who types commands wants to find them again.
 * --record hash restores that default. */
static int add_record(json_t *body, const struct exec_options *o, struct err *e)
{
	return compose_text(body, "record", "--record", o->record == NULL ? "text" : o->record, e);
}

/* The size of this terminal at the start. Later changes go through the attachment. */
static int add_tty(json_t *body, struct err *e)
{
	uint16_t rows = 24, cols = 80;

	terminal_size(&rows, &cols);
	if (json_object_set_new(body, "tty", json_pack("{s:i, s:i}", "rows", rows, "cols", cols)) <
	    0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

/* Code runs in an interpreter of the session, so it has a language and a context in place of a
 * user and secrets. exec_code() has refused the others. */
static int fill_code(json_t *body, const struct exec_options *o, const struct exec_command *c,
		     struct err *e)
{
	if (body == NULL || compose_text(body, "code", "the code", c->code, e) < 0 ||
	    compose_text(body, "language", "--lang", o->language, e) < 0 ||
	    compose_text(body, "context", "--context", o->context, e) < 0 ||
	    compose_text(body, "cwd", "--cwd", o->cwd, e) < 0 ||
	    compose_pairs(body, "env", "--env", &o->env, e) < 0 ||
	    compose_time(body, "timeout", o->timeout_ms, e) < 0 ||
	    compose_number(body, "output_limit", o->output_limit, e) < 0 ||
	    add_record(body, o, e) < 0)
		return -1;
	if (c->background && json_object_set_new(body, "background", json_true()) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

/* Code from stdin is read whole before the request, up to CODE_MAX. The caller frees it. */
static int read_stdin(char **ret, struct err *e)
{
	struct buf text = BUF_INIT(CODE_MAX);
	ssize_t n;

	do {
		uint8_t *room = buf_reserve(&text, 65536, e);

		n = room == NULL ? -1 : read(STDIN_FILENO, room, 65536);
		if (n < 0) {
			buf_release(&text);
			return room == NULL ? err_wrap(e, "the code") : err_sys(e, "read the code");
		}
		buf_commit(&text, (size_t)n);
	} while (n > 0);
	*ret = strdup(buf_text(&text));
	buf_release(&text);
	return *ret == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

/* With --lang the one word is the code, and "-" stands for stdin. So code never has input. */
int exec_code(const struct exec_options *o, struct exec_command *c, char **ret_text, struct err *e)
{
	*ret_text = NULL;
	if (o->language == NULL) {
		if (o->context != NULL || o->save_dir != NULL)
			return err_set(e, ERR_INVALID, "%s: only with --lang",
				       o->context != NULL ? "--context" : "--save-dir");
		return 0;
	}
	if (c->argc != 1)
		return err_set(e, ERR_INVALID, "--lang: give the code as one argument, or -");
	if (o->tty || o->user != NULL || o->secrets.n > 0 || o->record_input)
		return err_set(e, ERR_INVALID,
			       "--lang: not with --tty, --user, --secret or --record-input");
	c->input = false;
	c->code = c->argv[0];
	if (strcmp(c->code, "-") != 0)
		return 0;
	if (read_stdin(ret_text, e) < 0)
		return -1;
	c->code = *ret_text;
	return 0;
}

/* A command is a list of words and no text for a shell, so the server passes exactly these words
 * to execve(). */
static int exec_fill(json_t *body, const struct exec_options *o, const struct exec_command *c,
		     struct err *e)
{
	if (body == NULL ||
	    compose_list(body, "argv", "the command", (const char *const *)c->argv, c->argc, e) <
		    0 ||
	    compose_text(body, "user", "--user", o->user, e) < 0 ||
	    compose_text(body, "cwd", "--cwd", o->cwd, e) < 0 ||
	    compose_pairs(body, "env", "--env", &o->env, e) < 0 ||
	    compose_secrets(body, "secrets", &o->secrets, e) < 0 ||
	    compose_time(body, "timeout", o->timeout_ms, e) < 0 ||
	    compose_number(body, "output_limit", o->output_limit, e) < 0 ||
	    add_record(body, o, e) < 0 || (o->tty && add_tty(body, e) < 0))
		return -1;
	if ((o->record_input && json_object_set_new(body, "record_input", json_true()) < 0) ||
	    (c->input && json_object_set_new(body, "stdin_stream", json_true()) < 0) ||
	    (c->background && json_object_set_new(body, "background", json_true()) < 0))
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

/* The server answers when the command runs, or has failed to start. The id is checked, because
 * later requests put it into their paths. */
int exec_command(struct api_call *a, const char *session, const struct exec_options *o,
		 const struct exec_command *c, char ret_id[ID_MATCH_ID_MAX], json_t **ret,
		 struct err *e)
{
	OWN_JSON *body = json_object();
	struct target t;
	const char *id;

	if ((c->code != NULL ? fill_code : exec_fill)(body, o, c, e) < 0)
		return -1;
	id_match_target(&t, session, "executions");
	if (api_call_json(a, "POST", &t, body, ret, e) < 0)
		return -1;
	id = member_text(*ret, "id", "");
	if (*id == '\0' || strlen(id) >= ID_MATCH_ID_MAX)
		return err_set(e, ERR_SYSTEM,
			       "the server started a command and did not report its id");
	memcpy(ret_id, id, strlen(id) + 1);
	return 0;
}

/* A restarting server may know only that the command was starting, so both words mean that it
 * may run. */
bool exec_has_ended(const json_t *execution)
{
	const char *state = member_text(execution, "state", "running");

	return strcmp(state, "running") != 0 && strcmp(state, "starting") != 0;
}

/* The attachment has shown the results as lines. The whole object has them as members, for
 * --json and --result. *execution is replaced on success only. */
int exec_with_results(struct api_call *a, json_t **execution, struct err *e)
{
	json_t *whole = NULL;
	struct target t;

	id_match_execution_target(&t, member_text(*execution, "session_id", ""),
				  member_text(*execution, "id", ""), NULL);
	if (api_call_json(a, "GET", &t, NULL, &whole, e) < 0)
		return -1;
	json_decref(*execution);
	*execution = whole;
	return 0;
}

/* Print the limits that the execution hit. `limit` ended it. Without one, limits_hit has those
 * that it hid by ending with 0, and those that others in the session hit at the same time. Its own
 * output limit cut only the server's copy. */
static void limits_say(const json_t *execution, uint64_t code)
{
	const char *limit = member_text(execution, "limit", NULL);
	const json_t *hit = member_group(execution, "limits_hit");
	bool ended_it = code != 0 && limit != NULL, said = false;

	if (ended_it && strcmp(limit, "killed") != 0) {
		(void)fputs("cordon: limit reached: ", stderr);
		show_text(limit, stderr);
		(void)fputc('\n', stderr);
	}
	for (size_t i = 0; i < json_array_size(hit) && !ended_it; i++) {
		const char *name = json_string_value(json_array_get(hit, i));

		if (name == NULL || strcmp(name, "output") == 0)
			continue;
		(void)fputs(said ? ", " : "cordon: limit reached: ", stderr);
		show_text(name, stderr);
		said = true;
	}
	if (said)
		(void)fputs(code == 0 ? ", although the command ended with 0\n"
				      : ", perhaps by another command of the session\n",
			    stderr);
}

/* The code of the command if it has one. 256 stands for no code: then Cordon failed. Errors,
 * limits and refused hosts go to stderr before, because the caller usually ends with this code. */
int exec_exit_code(const json_t *execution, const char *program)
{
	const json_t *error = member_group(execution, "error");
	const char *message = member_text(error, "message", NULL);
	uint64_t code = member_number(execution, "exit_code", 256);

	if (message != NULL) {
		(void)fputs("cordon: ", stderr);
		if (program != NULL && code == EXIT_NOT_FOUND) {
			show_text(program, stderr);
			(void)fputs(": ", stderr);
		}
		show_text(message, stderr);
		(void)fputc('\n', stderr);
	} else {
		limits_say(execution, code);
	}
	denied_say(execution);
	return code > 255 ? ARGS_FAILED : (int)code;
}
