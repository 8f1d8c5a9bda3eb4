#include "exec.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "compose.h"
#include "member.h"
#include "show.h"
#include "terminal.h"

#define CODE_MAX (16U << 20)
#define EXIT_NOT_FOUND 127
#define DENIED_SHOWN 3 /* hosts */

/* The server's default is to keep a hash; a person who types commands wants to find them again. */
static int add_record(json_t *body, const struct exec_options *o, struct err *e)
{
	return compose_text(body, "record", "--record", o->record == NULL ? "text" : o->record, e);
}

static int add_tty(json_t *body, struct err *e)
{
	uint16_t rows = 24, cols = 80;

	terminal_size(&rows, &cols);
	if (json_object_set_new(body, "tty", json_pack("{s:i, s:i}", "rows", rows, "cols", cols)) <
	    0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

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
	if (o->tty || o->user != NULL || o->secrets.n > 0)
		return err_set(e, ERR_INVALID, "--lang: not with --tty, --user or --secret");
	c->input = false;
	c->code = c->argv[0];
	if (strcmp(c->code, "-") != 0)
		return 0;
	if (read_stdin(ret_text, e) < 0)
		return -1;
	c->code = *ret_text;
	return 0;
}

static int fill(json_t *body, const struct exec_options *o, const struct exec_command *c,
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
	if ((c->input && json_object_set_new(body, "stdin_stream", json_true()) < 0) ||
	    (c->background && json_object_set_new(body, "background", json_true()) < 0))
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

int exec_command(struct api_call *a, const char *session, const struct exec_options *o,
		 const struct exec_command *c, char ret_id[ID_MATCH_ID_MAX], json_t **ret,
		 struct err *e)
{
	OWN_JSON *body = json_object();
	struct target t;
	const char *id;

	if ((c->code != NULL ? fill_code : fill)(body, o, c, e) < 0)
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

bool exec_has_ended(const json_t *execution)
{
	const char *state = member_text(execution, "state", "running");

	return strcmp(state, "running") != 0 && strcmp(state, "starting") != 0;
}

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

/* The network is closed by default, and programs say that in many ways, or not at all. */
static void say_denied(const json_t *execution)
{
	const json_t *denied = member_group(execution, "denied");
	size_t n = json_array_size(denied), shown = n < DENIED_SHOWN ? n : DENIED_SHOWN;

	if (n == 0)
		return;
	(void)fprintf(stderr, "cordon: the network policy refused %zu host%s (", n,
		      n == 1 ? "" : "s");
	for (size_t i = 0; i < shown; i++) {
		(void)fputs(i == 0 ? "" : ", ", stderr);
		show_text(member_text(json_array_get(denied, i), "name", "?"), stderr);
	}
	(void)fputs(n > shown ? ", ...): cordon net " : "): cordon net ", stderr);
	show_text(member_text(execution, "session_id", "ID"), stderr);
	(void)fputs("; to allow hosts: --allow HOST, or presets: --policy npm\n", stderr);
}

int exec_exit_code(const json_t *execution, const char *program)
{
	const json_t *error = member_group(execution, "error");
	const char *message = member_text(error, "message", NULL);
	const char *limit = member_text(execution, "limit", NULL);
	uint64_t code = member_number(execution, "exit_code", 256);

	if (message != NULL) {
		(void)fputs("cordon: ", stderr);
		if (program != NULL && code == EXIT_NOT_FOUND) {
			show_text(program, stderr);
			(void)fputs(": ", stderr);
		}
		show_text(message, stderr);
		(void)fputc('\n', stderr);
	} else if (limit != NULL && strcmp(limit, "killed") != 0 &&
		   (code != 0 || strcmp(limit, "output") != 0)) {
		(void)fputs("cordon: limit reached: ", stderr);
		show_text(limit, stderr);
		(void)fputs(code == 0 ? ", although the command ended with 0\n" : "\n", stderr);
	}
	say_denied(execution);
	return code > 255 ? ARGS_FAILED : (int)code;
}
