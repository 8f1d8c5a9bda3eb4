/* execution_send.c - composes the SPAWN of an execution and sends it to PID 1: arguments,
 * environment with secrets, directory and user. Called by execution_start() and
 * execution_prepare.c. */
#include <string.h>

#include "buf.h"
#include "core_private.h"
#include "execution.h"
#include "json.h"
#include "live_cell.h"
#include "session_parts.h"

/* Does one of n strings assign to the same variable? */
static bool assigns(const char *strings, uint32_t n, const char *assignment)
{
	size_t name = strcspn(assignment, "=") + 1;

	for (; n > 0; n--, strings += strlen(strings) + 1)
		if (strncmp(strings, assignment, name) == 0)
			return true;
	return false;
}

/* Appends those of n bytes of assignments whose variable is not set yet. */
static void put_env(struct buf *to, size_t own, uint32_t *envc, const char *at, size_t n)
{
	for (const char *end = n == 0 ? at : at + n; at < end; at += n) {
		n = strlen(at) + 1;
		if (assigns(buf_text(to) + own, *envc, at))
			continue;
		buf_put(to, at, n);
		++*envc;
	}
}

/* argv, its own environment, secrets (its own, then the session's), and what of the environments of
 * the session and of its template none of them replaces. */
static int put_strings(struct execution *x, const struct execution_spec *spec, struct buf *to,
		       uint32_t *ret_envc, struct err *e)
{
	struct session *s = x->session;
	struct buf secrets = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	const struct store_template *t = session_template(s);
	size_t usual = t == NULL ? 0 : t->env_len;
	const char *own = spec->strings;

	to->secret = true;
	for (uint32_t i = 0; i < spec->argc; i++)
		own += strlen(own) + 1;
	*ret_envc = spec->envc;
	session_parts_add_env(s, x, &secrets);
	if (buf_check(&secrets, e) < 0 ||
	    buf_reserve(to, spec->strings_len + secrets.len + s->row.env_len + usual + 1, e) ==
		    NULL) {
		buf_release(&secrets);
		return -1;
	}
	buf_put(to, spec->strings, spec->strings_len);
	put_env(to, (size_t)(own - spec->strings), ret_envc, (const char *)secrets.data,
		secrets.len);
	put_env(to, (size_t)(own - spec->strings), ret_envc, s->row.env, s->row.env_len);
	if (usual > 0)
		put_env(to, (size_t)(own - spec->strings), ret_envc, t->env, usual);
	buf_release(&secrets);
	return buf_check(to, e);
}

static void put_members(struct json *to, const char *at, size_t len)
{
	char name[256];

	for (size_t n; len > 0; at += n, len -= n < len ? n : len) {
		size_t key = strcspn(at, "=");

		n = strlen(at) + 1;
		if (key == 0 || key >= sizeof(name) || at[key] != '=')
			continue;
		memcpy(name, at, key);
		name[key] = '\0';
		json_text(to, name, at + key + 1);
	}
}

int execution_env(struct execution *x, struct json *to, struct err *e)
{
	static const struct execution_spec none = { .strings = "" };
	struct buf strings = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	uint32_t envc;
	int got = put_strings(x, &none, &strings, &envc, e);

	if (got == 0)
		put_members(to, buf_text(&strings), strings.len);
	buf_release(&strings);
	return got;
}

/* What the client asked for, else what the template has, else "". */
static const char *given(const char *asked, const char *usual)
{
	if (asked != NULL && asked[0] != '\0')
		return asked;
	return usual == NULL ? "" : usual;
}

int execution_send(struct execution *x, const struct execution_spec *spec, struct err *e)
{
	struct session *s = x->session;
	const struct store_template *t = session_template(s);
	struct buf strings = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	bool with_results = spec->results && s->cell->version >= AGENT_VERSION_RESULTS;
	struct agent_spawn r = { .handle = x->program.handle,
				 .flags = AGENT_HOLD | (spec->tty ? AGENT_TTY : 0) |
					  (with_results ? AGENT_RESULTS : 0) |
					  (spec->stdin_open || spec->tty ? 0 : AGENT_NO_STDIN),
				 .rows = spec->rows,
				 .cols = spec->cols,
				 .timeout_ms = x->row.timeout_ms,
				 .nofile = s->row.limits.nofile,
				 .argc = spec->argc,
				 .user = given(spec->user, t == NULL ? NULL : t->user),
				 .cwd = given(spec->cwd, t == NULL ? NULL : t->workdir) };

	x->program.results = with_results;
	int sent = put_strings(x, spec, &strings, &r.envc, e);

	r.strings_len = strings.len;
	r.strings = buf_text(&strings);
	if (sent == 0)
		sent = agent_send_spawn(&s->cell->agent, &r, e);
	buf_release(&strings);
	if (sent == 0)
		live_cell_flush(s->cell);
	return sent;
}
