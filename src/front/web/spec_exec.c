#include "front/web/spec_exec.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

#include "daemon/session/session_boot.h"
#include "front/web/json_members.h"
#include "front/web/spec_secret.h"
#include "lib/base/base64.h"

#define ENV_MAX 256
#define STRINGS_MAX (2U << 20)
#define TTY_SIZE_MAX 4096 /* rows or columns of a terminal */
#define WORD_MAX 64

static void read_argv(struct json_members *m, struct spec_exec *s)
{
	json_t *list = json_members_array(m, "argv", SPEC_ARGS_MAX);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		json_t *word = json_array_get(list, i);

		if (!json_is_string(word)) {
			(void)json_members_fail(m, "argv", "must be an array of strings");
			return;
		}
		buf_put(&s->strings, json_string_value(word), json_string_length(word) + 1);
		buf_printf(&s->text, "%s%s", i == 0 ? "" : " ", json_string_value(word));
		s->spec.argc++;
	}
	if (list != NULL &&
	    (s->spec.argc == 0 || s->strings.len == 0 || s->strings.data[0] == '\0'))
		(void)json_members_fail(m, "argv", "must begin with a program");
}

/* A word that becomes an argument: of letters, digits and a few signs, and no option. */
static const char *put_word(struct json_members *m, struct spec_exec *s, const char *option,
			    const char *name, const char *usual)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_.+-";
	const char *word = usual;

	json_members_text(m, name, WORD_MAX - 1, &word);
	if (word == NULL)
		return NULL;
	if (word[0] == '\0' || word[0] == '-' || word[strspn(word, good)] != '\0')
		(void)json_members_fail(m, name, "must be of letters, digits, '_', '.', '+', '-'");
	buf_put(&s->strings, option, strlen(option) + 1);
	buf_put(&s->strings, word, strlen(word) + 1);
	s->spec.argc += 2;
	return word;
}

/* Checked here as well as in the cell: a word that no interpreter knows is a mistake of the
 * request. As src/incell/interpreter/kernel_process.c has them. */
static void check_language(struct json_members *m)
{
	static const char *const known[] = { "python", "javascript", "js", "typescript", "ts",
					     "bash",   "sh",	     "r",  "java" };
	const char *word = json_string_value(json_object_get(m->object, "language"));

	if (m->failed || word == NULL)
		return;
	for (size_t i = 0; i < COUNT(known); i++)
		if (strcasecmp(word, known[i]) == 0)
			return;
	(void)json_members_fail(m, "language",
				"must be one of python, javascript (js), typescript (ts), "
				"bash (sh), r, java");
}

/* Code runs in the interpreter of the session. The started program is its sender. */
static void read_code(struct json_members *m, struct spec_exec *s, const char *code)
{
	static const char program[] = SESSION_BOOT_INTERPRETER "\0run"; /* with its NUL */

	s->is_code = s->has_input = s->spec.results = s->spec.stdin_open = true;
	buf_put(&s->strings, program, sizeof(program));
	s->spec.argc = 2;
	s->spec.language = put_word(m, s, "--language", "language", "python");
	check_language(m);
	s->spec.context = put_word(m, s, "--context", "context", NULL); /* else the language's */
	buf_put_text(&s->text, code);
	s->input_len = strlen(code);
	s->input = malloc(s->input_len + 1);
	if (s->input == NULL)
		(void)json_members_fail(m, "code", "out of memory");
	else
		memcpy(s->input, code, s->input_len);
}

/* Refuse members for programs: code goes to a kernel that runs already. */
static void refuse_with_code(struct json_members *m)
{
	static const char *const names[] = { "user",	     "stdin", "stdin_base64",
					     "stdin_stream", "tty",   "record_input" };

	if (json_members_take(m, "secrets") != NULL)
		(void)json_members_fail(m, "secrets",
					"is not for code: its context outlives the execution, and "
					"could keep them; give them to the session");
	for (size_t i = 0; i < COUNT(names); i++)
		if (json_members_take(m, names[i]) != NULL)
			(void)json_members_fail(m, names[i], "is not for code");
}

static void put_cwd(struct json_members *m, struct spec_exec *s)
{
	const char *cwd = NULL;

	json_members_text(m, "cwd", 4095, &cwd);
	if (cwd == NULL || cwd[0] == '\0')
		return;
	s->spec.cwd = cwd;
	buf_put(&s->strings, "--cwd", sizeof("--cwd"));
	buf_put(&s->strings, cwd, strlen(cwd) + 1);
	s->spec.argc += 2;
}

/* The variables belong to the program that sends the code. Its arguments name the variables to
 * send. After the arguments, because they are strings behind them. */
static void put_code_env(struct json_members *m, struct spec_exec *s)
{
	struct buf env = BUF_INIT(STRINGS_MAX);
	int n = spec_env_read(m, "env", ENV_MAX, &env);
	const char *at = buf_text(&env);

	for (int i = 0; i < n; i++, at += strlen(at) + 1) {
		buf_put(&s->strings, "--env", sizeof("--env"));
		buf_put(&s->strings, at, strcspn(at, "="));
		buf_put(&s->strings, "", 1);
		s->spec.argc += 2;
	}
	if (n > 0)
		buf_put(&s->strings, env.data, env.len);
	s->spec.envc = n < 0 ? 0 : (uint32_t)n;
	buf_release(&env);
}

static void read_command(struct json_members *m, struct spec_exec *s)
{
	static const char shell[] = "sh\0-c"; /* with its NUL */
	const char *command = NULL, *code = NULL;

	json_members_text(m, "command", JSON_MEMBERS_BODY_MAX, &command);
	json_members_text(m, "code", JSON_MEMBERS_BODY_MAX, &code);
	read_argv(m, s);
	if (m->failed)
		return;
	if ((command != NULL) + (s->spec.argc != 0) + (code != NULL) != 1) {
		(void)json_members_fail(m, "command", "give one of command, argv and code");
		return;
	}
	if (code != NULL)
		read_code(m, s, code);
	if (command == NULL)
		return;
	if (command[0] == '\0')
		(void)json_members_fail(m, "command", "is empty");
	buf_put(&s->strings, shell, sizeof(shell));
	buf_put(&s->strings, command, strlen(command) + 1);
	buf_put_text(&s->text, command);
	s->spec.argc = 3;
}

static void decode_input(struct json_members *m, struct spec_exec *s, const char *text)
{
	size_t n = strlen(text);
	ssize_t got;

	s->input = malloc(BASE64_BYTES(n) + 1);
	if (s->input == NULL) {
		(void)json_members_fail(m, "stdin_base64", "out of memory");
		return;
	}
	got = base64_decode(text, n, s->input);
	if (got < 0)
		(void)json_members_fail(m, "stdin_base64", "is not base64");
	else
		s->input_len = (size_t)got;
}

static void read_input(struct json_members *m, struct spec_exec *s)
{
	const char *text = NULL, *coded = NULL;
	bool stream = false;

	json_members_text(m, "stdin", JSON_MEMBERS_BODY_MAX, &text);
	json_members_text(m, "stdin_base64", JSON_MEMBERS_BODY_MAX, &coded);
	json_members_bool(m, "stdin_stream", &stream);
	if ((text != NULL) + (coded != NULL) + stream > 1)
		(void)json_members_fail(m, "stdin",
					"give one of stdin, stdin_base64, stdin_stream");
	if (m->failed)
		return;
	s->has_input = text != NULL || coded != NULL;
	s->spec.stdin_open = s->has_input || stream;
	if (coded != NULL)
		decode_input(m, s, coded);
	if (text != NULL) {
		s->input_len = strlen(text);
		s->input = malloc(s->input_len + 1);
		if (s->input == NULL)
			(void)json_members_fail(m, "stdin", "out of memory");
		else
			memcpy(s->input, text, s->input_len);
	}
}

static void read_size(struct json_members *m, uint16_t *ret_rows, uint16_t *ret_cols)
{
	uint64_t rows = 0, cols = 0;

	json_members_count(m, "rows", 1, TTY_SIZE_MAX, &rows);
	json_members_count(m, "cols", 1, TTY_SIZE_MAX, &cols);
	if (!m->failed && (rows == 0 || cols == 0))
		(void)json_members_fail(m, rows == 0 ? "rows" : "cols", "is missing");
	*ret_rows = (uint16_t)rows;
	*ret_cols = (uint16_t)cols;
}

static void read_tty(struct json_members *outer, struct execution_spec *spec)
{
	json_t *object = json_members_object(outer, "tty", JSON_MEMBERS_MAX);
	struct json_members m;

	if (object == NULL)
		return;
	spec->tty = true;
	spec->stdin_open = true; /* a terminal is for both directions */
	json_members_begin(&m, object, "tty", outer->e);
	read_size(&m, &spec->rows, &spec->cols);
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

/* Environment, directory, user, secrets, input and terminal of a program. */
static void read_surroundings(struct json_members *m, struct spec_exec *s)
{
	int envc = spec_env_read(m, "env", ENV_MAX, &s->strings);

	s->spec.envc = envc < 0 ? 0 : (uint32_t)envc;
	json_members_text(m, "cwd", 4095, &s->spec.cwd);
	json_members_text(m, "user", WORD_MAX - 1, &s->spec.user);
	spec_secret_list(m, "secrets", &s->secrets);
	read_input(m, s);
	json_members_bool(m, "record_input", &s->spec.record_input);
	read_tty(m, &s->spec);
}

int spec_exec_read(const void *body, size_t len, struct spec_exec *ret, struct err *e)
{
	static const char *const records[] = { "hash", "text" };
	struct execution_spec *spec = &ret->spec;
	unsigned record = 0;
	struct json_members m;
	struct err full;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->strings, STRINGS_MAX);
	buf_init(&ret->text, STRINGS_MAX);
	buf_init(&ret->secrets, SPEC_SECRET_LINES_BYTES);
	ret->root = json_members_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	read_command(&m, ret);
	if (ret->is_code) {
		refuse_with_code(&m);
		put_cwd(&m, ret);
		put_code_env(&m, ret);
	} else {
		read_surroundings(&m, ret);
	}
	json_members_time(&m, "timeout", "timeout_ms", &spec->timeout_ms, NULL);
	json_members_bytes(&m, "output_limit", NULL, &spec->output_limit, NULL);
	json_members_choice(&m, "record", records, COUNT(records), &record);
	json_members_bool(&m, "background", &spec->background);
	spec->secrets = buf_text(&ret->secrets);
	if (buf_check(&ret->strings, &full) < 0 || buf_check(&ret->text, &full) < 0)
		(void)json_members_fail(&m, "argv", "arguments and environment are too large");
	spec->keep_text = record == 1;
	spec->strings = (const char *)ret->strings.data;
	spec->strings_len = ret->strings.len;
	spec->text = buf_text(&ret->text);
	return json_members_end(&m);
}

void spec_exec_release(struct spec_exec *s)
{
	json_decref(s->root);
	buf_release(&s->strings);
	buf_release(&s->text);
	buf_release(&s->secrets);
	free(s->input);
}

static int signal_of(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known != NULL && strcmp(known, name) == 0)
			return i;
	}
	return 0;
}

static void read_signal(struct json_members *m, int *ret)
{
	json_t *value = json_members_take(m, "signal");
	json_int_t n = 0;

	if (json_is_string(value))
		n = signal_of(json_string_value(value));
	else if (json_is_integer(value))
		n = json_integer_value(value);
	if (n < 1 || n > 64)
		(void)json_members_fail(m, "signal", "must be a signal like \"TERM\" or 15");
	else
		*ret = (int)n;
}

/* Parse a body and pass its members to one function. */
static int read_with(const void *body, size_t len, void (*read)(struct json_members *m, void *ret),
		     void *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int r;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	read(&m, ret);
	r = json_members_end(&m);
	json_decref(root);
	return r;
}

static void signal_body(struct json_members *m, void *ret)
{
	read_signal(m, ret);
}

int spec_exec_signal(const void *body, size_t len, int *ret, struct err *e)
{
	return read_with(body, len, signal_body, ret, e);
}

static void size_body(struct json_members *m, void *ret)
{
	struct spec_exec_message *v = ret;

	read_size(m, &v->rows, &v->cols);
}

int spec_exec_size(const void *body, size_t len, uint16_t *ret_rows, uint16_t *ret_cols,
		   struct err *e)
{
	struct spec_exec_message v = { 0 };

	if (read_with(body, len, size_body, &v, e) < 0)
		return -1;
	*ret_rows = v.rows;
	*ret_cols = v.cols;
	return 0;
}

static void message_body(struct json_members *m, void *ret)
{
	static const char *const orders[] = { "resize", "signal", "eof" };
	struct spec_exec_message *v = ret;
	unsigned order = SPEC_EXEC_ORDERS;

	json_members_choice(m, "type", orders, COUNT(orders), &order);
	if (order == SPEC_EXEC_RESIZE)
		read_size(m, &v->rows, &v->cols);
	else if (order == SPEC_EXEC_SIGNAL)
		read_signal(m, &v->signal);
	else if (order == SPEC_EXEC_ORDERS)
		(void)json_members_fail(m, "type", "is missing");
	v->order = (enum spec_exec_order)order;
}

int spec_exec_message(const void *text, size_t len, struct spec_exec_message *ret, struct err *e)
{
	struct spec_exec_message v = { 0 };

	if (read_with(text, len, message_body, &v, e) < 0)
		return -1;
	*ret = v;
	return 0;
}
