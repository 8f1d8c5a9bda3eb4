/* Any body of a request, any header Range, any cursor, any record of changes; the first byte says
 * which. What is taken is within the bounds the core relies on; what is refused says why. */
#include "fuzz.h"

#include "lib/http/byte_range.h"
#include "lib/wire/diff_record.h"
#include "front/mcpservers/server_spec.h"
#include "front/rest/cursor.h"
#include "front/web/spec_exec.h"
#include "front/web/spec_session.h"
#include "front/rest/spec_template.h"
#include "daemon/template/templates.h"

unsigned long fuzz_accepted;

static size_t strings(const char *text, size_t len)
{
	size_t n = 0;

	assert(len == 0 || text[len - 1] == '\0');
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\0';
	return n;
}

/* What is taken of `mcp` is what the sessions of servers are made from later, and read again. */
static void servers(json_t *mcp)
{
	char *text, *body, *client;
	struct server_spec spec;
	json_t *all, *server;
	const char *name;
	struct err e = { 0 };

	if (server_spec_check(mcp, &text, &e) < 0) {
		assert(e.code != ERR_NONE && e.msg[0] != '\0');
		free(text);
		return;
	}
	all = server_spec_servers(text);
	assert(json_object_size(all) > 0 && json_object_size(all) <= SERVER_SPEC_MAX);
	json_object_foreach(all, name, server)
	{
		assert(server_spec_session("i0", name, server, &body, &client, &e) == 0);
		assert(server_spec_read(client, &spec));
		assert(strcmp(spec.name, name) == 0 && strcmp(spec.owner, "i0") == 0);
		free(spec.gateway);
		free(body);
		free(client);
	}
	json_decref(all);
	free(text);
}

static int session(const char *body, size_t len, struct err *e)
{
	struct spec_session s;
	struct session_spec *p = &s.spec;
	int r = spec_session_read(body, len, &s, e);

	if (r == 0) {
		size_t n = strings(p->env, p->env_len);

		assert(n <= SPEC_ENV_MAX && p->nmounts <= CELL_MOUNTS_MAX);
		assert(p->profile >= -1 && p->profile < CELL_PROFILES);
		assert(p->on_timeout < SESSION_ACTIONS && p->on_idle < SESSION_ACTIONS);
		for (const char *at = p->env; n > 0; n--, at += strlen(at) + 1)
			assert(strchr(at, '=') > at);
		for (unsigned i = 0; i < p->nmounts; i++) {
			assert(p->mounts[i].source[0] == '/');
			assert(strpbrk(p->mounts[i].source, "\t\n") == NULL);
			assert(cell_is_place(p->mounts[i].target, CELL_PATH_MAX));
		}
		assert(p->metadata == NULL || p->metadata[0] == '{');
		if (s.mcp != NULL)
			servers(s.mcp);
		assert(p->writable == NULL ||
		       (p->writable[0] == '/' && !strchr(p->writable, '\n')));
	}
	spec_session_release(&s);
	return r;
}

/* Lines of its texts are what the core cuts them into. */
static int template(const char *body, size_t len, struct err *e)
{
	struct spec_template s;
	const struct store_template *t = &s.row;
	int r = spec_template_read(body, len, "/templates", &s, e);

	if (r == 0) {
		assert(t->kind < TEMPLATE_KINDS && t->level < CELL_LEVELS);
		assert(strings(t->env, t->env_len) <= SPEC_ENV_MAX);
		assert(t->kind == TEMPLATE_HOST || strncmp(t->layers, "/templates/", 11) != 0);
		for (const char *at = t->mounts; *at != '\0'; at = strchr(at, '\n') + 1)
			assert(at[0] == '/' && strchr(at, '\n') != NULL);
	}
	spec_template_release(&s);
	return r;
}

static int exec(const char *body, size_t len, struct err *e)
{
	struct spec_exec s;
	int r = spec_exec_read(body, len, &s, e);

	if (r == 0) {
		assert(s.spec.argc > 0 && s.spec.strings[0] != '\0');
		assert(strings(s.spec.strings, s.spec.strings_len) == s.spec.argc + s.spec.envc);
		assert(s.has_input == (s.input != NULL));
		assert(!s.spec.tty || (s.spec.rows > 0 && s.spec.cols > 0));
	}
	spec_exec_release(&s);
	return r;
}

static int message(const char *body, size_t len, struct err *e)
{
	struct spec_exec_message m = { 0 };
	int r = spec_exec_message(body, len, &m, e);

	assert(r < 0 || m.order < SPEC_EXEC_ORDERS);
	assert(r < 0 || m.order != SPEC_EXEC_SIGNAL || (m.signal > 0 && m.signal <= 64));
	return r;
}

static int range(const char *text, size_t len, struct err *e)
{
	struct byte_range g = { 0 };

	if (!byte_range_parse((struct http1_span){ text, len }, &g))
		return err_set(e, ERR_INVALID, "ignored");
	assert(g.from_end || g.first <= g.last);
	return 0;
}

static int line(const char *text, struct err *e)
{
	struct diff_record c = { 0 };
	char id[STORE_ID_MAX];
	uint64_t ms, places[3];
	char again[CURSOR_PLACES_TEXT];

	if (cursor_parse_places(text, places, 3, e) == 0) {
		cursor_write_places(places, 3, again);
		assert(strcmp(text, again) == 0 || strcmp(text, "0") == 0);
		return 0;
	}
	if (cursor_parse(text, &ms, id, e) == 0) {
		assert(ms <= INT64_MAX && id[0] != '\0' && strlen(id) < sizeof(id));
		return 0;
	}
	if (diff_record_parse(text, &c, e) < 0)
		return -1;
	assert(c.path[0] == '/' && c.path > text && c.path < text + strlen(text));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *exact;
	struct err e = { 0 };
	int r;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	exact = fuzz_copy(data + 1, size - 1);
	switch (data[0]) {
	case 's':
		r = session(exact, size - 1, &e);
		break;
	case 't':
		r = template(exact, size - 1, &e);
		break;
	case 'e':
		r = exec(exact, size - 1, &e);
		break;
	case 'm':
		r = message(exact, size - 1, &e);
		break;
	case 'r':
		r = range(exact, size - 1, &e);
		break;
	default:
		r = line(text, &e);
		break;
	}
	assert(r == 0 || (e.code != ERR_NONE && e.msg[0] != '\0'));
	fuzz_accepted += r == 0;
	free(exact);
	free(text);
	return 0;
}
