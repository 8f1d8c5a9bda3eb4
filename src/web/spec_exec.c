#include "spec_exec.h"

#include <signal.h>
#include <string.h>

#include "base64.h"
#include "json_members.h"
#include "spec_env.h"
#include "spec_secret.h"

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

static void read_command(struct json_members *m, struct spec_exec *s)
{
	static const char shell[] = "sh\0-c"; /* with its NUL */
	const char *command = NULL;

	json_members_text(m, "command", JSON_MEMBERS_BODY_MAX, &command);
	read_argv(m, s);
	if (m->failed)
		return;
	if ((command == NULL) == (s->spec.argc == 0)) {
		(void)json_members_fail(m, "command", "give either command or argv");
		return;
	}
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

int spec_exec_read(const void *body, size_t len, struct spec_exec *ret, struct err *e)
{
	static const char *const records[] = { "hash", "text" };
	struct execution_spec *spec = &ret->spec;
	unsigned record = 0;
	struct json_members m;
	struct err full;
	int envc;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->strings, STRINGS_MAX);
	buf_init(&ret->text, STRINGS_MAX);
	buf_init(&ret->secrets, SPEC_SECRET_LINES_BYTES);
	ret->root = json_members_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	read_command(&m, ret);
	envc = spec_env_read(&m, "env", ENV_MAX, &ret->strings);
	spec->envc = envc < 0 ? 0 : (uint32_t)envc;
	json_members_text(&m, "cwd", 4095, &spec->cwd);
	json_members_text(&m, "user", WORD_MAX - 1, &spec->user);
	json_members_time(&m, "timeout", &spec->timeout_ms, NULL);
	json_members_bytes(&m, "output_limit", &spec->output_limit, NULL);
	json_members_choice(&m, "record", records, COUNT(records), &record);
	json_members_bool(&m, "background", &spec->background);
	spec_secret_list(&m, "secrets", &ret->secrets);
	spec->secrets = buf_text(&ret->secrets);
	read_input(&m, ret);
	read_tty(&m, spec);
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

/* Parses a body and passes its members to one function. */
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
