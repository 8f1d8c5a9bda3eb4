/* tool_create_session.c - the tool `create_session`: a session that other calls use by its id.
 *
 * With `repository` the answer comes when git has cloned it (clone.h). Until then no client knows
 * the id, so the session is ended whatever else happens: git fails, the call is cancelled, the
 * client is gone, the server stops. If the server is killed, the session ends by its timeout. */
#include "tools.h"

#include <stdio.h>
#include <string.h>

#include "clone.h"
#include "json_text.h"
#include "json_view.h"
#include "policy_select.h"
#include "reply.h"
#include "session_policy.h"
#include "session_request.h"
#include "spec_session.h"

#define BODY_MAX (256U << 10)

struct create {
	struct clone clone; /* first, see clone.h; all zero if there is nothing to clone */
	struct session_making making;
	bool is_unnamed; /* the session runs, and no client knows its id */
};

static void end_unnamed(struct tool_call *c)
{
	struct create *m = c->own;
	struct request *r = c->r;
	struct err e;

	if (!m->is_unnamed)
		return;
	m->is_unnamed = false;
	IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e),
		"then the session ends by its timeout");
}

static void release(struct tool_call *c)
{
	struct create *m = c->own;

	clone_release(&m->clone);
	session_making_release(&m->making);
	end_unnamed(c);
}

static bool progress(struct tool_call *c, uint64_t *ret_done, struct buf *message)
{
	struct create *m = c->own;

	return clone_progress(&m->clone, ret_done, message);
}

/* A word that names a preset has no dot, colon, slash or star; anything else is a host. */
static bool is_preset(struct json_span word)
{
	for (size_t i = 0; i < word.n; i++)
		if (strchr(".:/*", word.p[i]) != NULL)
			return false;
	return true;
}

static void write_words(struct json *j, const char *name, const struct json_node *list,
			bool presets)
{
	json_open(j, name, '[');
	if (list->kind == JSON_READ_TEXT && is_preset(list->text) == presets)
		json_bytes(j, NULL, list->text.p, list->text.n);
	for (const struct json_node *v = json_tree_first(list); v != NULL;
	     v = json_tree_next(list, v))
		if (is_preset(v->text) == presets)
			json_bytes(j, NULL, v->text.p, v->text.n);
	json_close(j, ']');
}

/* Names of presets and hosts, and what is said of packages, as a document of policy.h; either may
 * be NULL. */
static void write_network(struct json *j, const struct json_node *list,
			  const struct json_node *packages)
{
	json_open(j, "network", '{');
	if (list != NULL) {
		write_words(j, "extends", list, true);
		write_words(j, "rules", list, false);
	}
	if (packages != NULL)
		json_tree_write(j, "packages", packages);
	json_close(j, '}');
}

static void write_body(struct tool_call *c, struct json *j)
{
	static const char *const same[][2] = { { "template", "template" },
					       { "timeout_s", "timeout" },
					       { "env", "env" },
					       { "metadata", "metadata" },
					       { "level", "level" } };
	const struct json_node *network = json_tree_get(c->q.arguments, "network");
	const struct json_node *packages = json_tree_get(c->q.arguments, "packages");

	json_open(j, NULL, '{');
	for (size_t i = 0; i < COUNT(same); i++) {
		const struct json_node *v = json_tree_get(c->q.arguments, same[i][0]);

		if (v != NULL)
			json_tree_write(j, same[i][1], v);
	}
	if (network != NULL || packages != NULL)
		write_network(j, network, packages);
	json_close(j, '}');
}

/* ---- the answer */

static const char *workdir_of(const struct session *s)
{
	const struct store_template *t = session_template(s);

	return t == NULL || t->workdir == NULL || t->workdir[0] == '\0' ? "/home/user" : t->workdir;
}

static void write_repository(struct tool_call *c, const char *workdir, const struct clone *k)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/%s", strcmp(workdir, "/") == 0 ? "" : workdir,
		       k->arg.name);
	json_open(&c->out, "repository", '{');
	tool_shown(c, "path", path);
	json_text(&c->out, "commit", k->commit[0] == '\0' ? NULL : k->commit);
	json_close(&c->out, '}');
}

static void answer(struct tool_call *c, struct session *s)
{
	const struct create *m = c->own;
	const struct store_session *row = session_row(s);
	char name[POLICY_SELECT_NAME_MAX];

	policy_select_name(session_policy_of_row(c->r->core, row), name);
	tool_open(c);
	json_text(&c->out, "session_id", row->id);
	json_view_time(&c->out, "expires_at", row->deadline_ms);
	json_text(&c->out, "network", name);
	json_text(&c->out, "workdir", workdir_of(s));
	json_text(&c->out, "template", row->template);
	json_text(&c->out, "level", cell_level_of(row->level)->name);
	if (m->clone.c != NULL)
		write_repository(c, workdir_of(s), &m->clone);
	tool_done(c);
}

/* ---- in order */

static void on_cloned(struct clone *k, const char *why)
{
	struct tool_call *c = k->c;
	struct create *m = c->own;
	struct buf text = BUF_INIT(TOOL_RESULT_MAX / 2);
	struct err e = { 0 };
	struct session *s;

	if (why != NULL) {
		end_unnamed(c);
		buf_printf(&text, "%s\nThe session was ended; there is none.", why);
		tool_failed(c, buf_text(&text));
		buf_release(&text);
		return;
	}
	s = session_live(c->r->core, c->r->tenant, c->r->session_id, &e);
	if (s == NULL) {
		reply_error(c->r, &e);
		return;
	}
	m->is_unnamed = c->done; /* cancelled meanwhile: no client gets the id */
	answer(c, s);
}

static void on_made(struct session_making *making, struct session *s, const struct err *why)
{
	struct tool_call *c = tool_of(making->r);
	struct create *m = c->own;
	struct err e = { 0 };

	if (why != NULL) {
		reply_error(c->r, why);
	} else if (m->clone.c == NULL) {
		answer(c, s);
	} else {
		m->is_unnamed = true;
		m->clone.on_cloned = on_cloned;
		if (clone_start(&m->clone, s, &e) < 0)
			reply_error(c->r, &e);
	}
}

static void create(struct tool_call *c)
{
	const struct json_node *repository = json_tree_get(c->q.arguments, "repository");
	struct create *m = c->own;
	struct spec_session spec = { 0 };
	struct err e = { 0 };
	unsigned retry_s = 0;
	struct json j;
	int making;

	if (repository != NULL && clone_read(&m->clone, c, repository, &e) < 0) {
		reply_error(c->r, &e);
		return;
	}
	json_init_heap(&j, BODY_MAX);
	write_body(c, &j);
	if (!json_ok(&j)) {
		json_release(&j);
		tool_failed(c, "The arguments are too large.");
		return;
	}
	m->making.on_made = on_made;
	making = session_request_count(c->r->tenant, j.text, j.len, &e);
	if (making == 0)
		making = spec_session_read(j.text, j.len, &spec, &e);
	if (making == 0)
		making = session_making_start(&m->making, c->r, &spec.spec, &retry_s, &e);
	spec_session_release(&spec);
	json_release(&j);
	if (making < 0)
		reply_refusal(c->r, &e, retry_s);
}

/* clang-format off */
const struct tool tool_create_session = {
	.shown = {
		.name = "create_session",
		.title = "Create a sandbox session",
		.description =
			"Makes a sandbox that other tools use by its session_id. Its files and processes "
			"stay between calls and are gone when it ends: after timeout_s (300 by default, "
			"counted from now), or by stop. It has no network unless network is given: names of "
			"presets (pypi, npm, github-read, ...) or hosts (example.com). packages says which "
			"packages may be installed, and allows its registries by itself. repository is cloned "
			"into its workdir, if network allows its host. Use run without session_id for a "
			"single command.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"template": {
					"type": "string",
					"description": "what its file system is made from; left out: the server's default"
				},
				"level": {
					"type": "string", "enum": ["container", "gvisor", "microvm"],
					"description": "what separates it from the machine; left out: as the template has it"
				},
				"timeout_s": {"type": "integer", "minimum": 1, "maximum": 2592000},
				"network": {
					"anyOf": [
						{"type": "string"},
						{
							"type": "array", "maxItems": 100,
							"items": {"type": "string"}
						}
					],
					"description": "presets or hosts that may be reached"
				},
				"packages": {
					"type": "object",
					"properties": {
						"registries": {
							"type": "array", "maxItems": 16, "items": {"type": "string"},
							"description": "pypi, npm, yarn, cargo, go, gem, maven, debian, ubuntu, github, gitlab"
						},
						"mode": {
							"type": "string", "enum": ["open", "pinned", "offline", "offline-cache"],
							"description": "pinned: only what lockfiles name"
						},
						"min_age": {
							"type": "string",
							"description": "versions younger than this (7d) are not installed"
						},
						"allow": {
							"type": "array", "maxItems": 1000, "items": {"type": "string"},
							"description": "only these: ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION, * is any text"
						},
						"deny": {
							"type": "array", "maxItems": 1000, "items": {"type": "string"}
						},
						"scripts": {
							"type": "string", "enum": ["allow", "deny"],
							"description": "packages that run code when they are installed"
						},
						"lockfiles": {
							"type": "array", "maxItems": 8,
							"items": {
								"type": "object",
								"properties": {
									"name": {"type": "string", "description": "package-lock.json, requirements.txt, ..."},
									"text": {"type": "string"}
								},
								"required": ["name", "text"],
								"additionalProperties": false
							}
						}
					},
					"additionalProperties": false,
					"description": "which packages may be installed"
				},
				"env": {
					"type": "object",
					"additionalProperties": {"type": "string"},
					"description": "environment of all commands"
				},
				"metadata": {"type": "object", "additionalProperties": {"type": "string"}},
				"repository": {
					"type": "object",
					"properties": {
						"url": {
							"type": "string", "minLength": 1, "maxLength": 1024,
							"description": "https://HOST/PATH, without credentials"
						},
						"ref": {
							"type": "string", "minLength": 1, "maxLength": 255,
							"description": "a branch or a tag; left out: the default branch"
						}
					},
					"required": ["url"],
					"additionalProperties": false,
					"description": "for git clone --depth 1; network must allow its host"
				}
			},
			"additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {"type": "string"},
				"expires_at": {"type": ["string", "null"]},
				"network": {"type": "string"}, "workdir": {"type": "string"},
				"template": {"type": "string"}, "level": {"type": "string"},
				"repository": {
					"type": "object",
					"properties": {
						"path": {"type": "string"},
						"commit": {"type": ["string", "null"]}
					}
				}
			},
			"required": ["session_id", "workdir"]
		}),
	},
	.scope = TENANT_SESSIONS,
	.own_size = sizeof(struct create),
	.start = create,
	.progress = progress,
	.release = release,
};
/* clang-format on */
