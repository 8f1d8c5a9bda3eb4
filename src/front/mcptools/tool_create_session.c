/* tool_create_session.c - the tool `create_session`: a session that other calls use by its id.
 *
 * With `repository` the answer comes when git has cloned it. Until then no client knows
 * the id, so the session is ended whatever else happens: git fails, the call is cancelled, the
 * client is gone, the server stops. If the server is killed, the session ends by its timeout. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon/egressctl/session_policy.h"
#include "daemon/execution/execution.h"
#include "daemon/store/store_net.h"
#include "front/mcptools/run_end.h"
#include "front/mcptools/tools.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/session_request.h"
#include "front/web/spec_exec.h"
#include "front/web/spec_session.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/json/json_tree.h"
#include "lib/mcp/server/json_text.h"
#include "lib/policy/policy_select.h"
#include "lib/wire/exit_codes.h"

/* ---- the repository
 *
 * The argument `repository` of create_session: what git clones, and the name of
 * the directory. Its texts become arguments of git, so that only few characters are allowed, and
 * nothing that git could take for an option or another kind of address. Pure. */

#define REPOSITORY_URL_MAX 1024
#define REPOSITORY_REF_MAX 255
#define REPOSITORY_NAME_MAX 100

struct repository_arg {
	char url[REPOSITORY_URL_MAX + 1];
	char ref[REPOSITORY_REF_MAX + 1]; /* "": the default branch */
	char host[256];
	char name[REPOSITORY_NAME_MAX + 1]; /* the last part of the path, without .git */
};

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define HTTPS "https://"

/* False: missing, too long, or with a NUL. */
static bool repository_copy(struct json_span from, char *to, size_t cap)
{
	if (from.p == NULL || from.n >= cap || memchr(from.p, '\0', from.n) != NULL)
		return false;
	memcpy(to, from.p, from.n);
	to[from.n] = '\0';
	return true;
}

/* A name, and perhaps a port. Return its end, or NULL. */
static const char *read_host(const char *at, struct repository_arg *ret)
{
	size_t n = strspn(at, ALNUM ".-"), digits;

	if (n == 0 || !repository_copy((struct json_span){ at, n }, ret->host, sizeof(ret->host)) ||
	    strchr(".-", at[0]) != NULL)
		return NULL;
	at += n;
	if (at[0] != ':')
		return at;
	digits = strspn(at + 1, "0123456789");
	return digits == 0 || digits > 5 ? NULL : at + 1 + digits;
}

/* Is every part non-empty, without a dot or a dash in front? */
static bool are_parts(const char *path)
{
	if (path[0] != '/' || path[strspn(path, ALNUM "/-_.~+")] != '\0')
		return false;
	for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
		if (at[1] == '\0' || strchr("/.-", at[1]) != NULL)
			return false;
	return true;
}

/* git names the folder so, too. */
static bool read_name(const char *path, struct repository_arg *ret)
{
	const char *last = strrchr(path, '/') + 1;
	size_t n = strlen(last);

	if (n > 4 && strcmp(last + n - 4, ".git") == 0)
		n -= 4;
	return repository_copy((struct json_span){ last, n }, ret->name, sizeof(ret->name));
}

static int read_url(struct repository_arg *ret, struct err *e)
{
	const char *path;

	if (strncmp(ret->url, HTTPS, strlen(HTTPS)) != 0)
		return err_set(e, ERR_INVALID, "repository.url: must begin with https://");
	if (strchr(ret->url, '@') != NULL)
		return err_set(e, ERR_INVALID,
			       "repository.url: must have no user name or password; the network "
			       "policy can add credentials");
	path = read_host(ret->url + strlen(HTTPS), ret);
	if (path == NULL || !are_parts(path) || !read_name(path, ret))
		return err_set(
			e, ERR_INVALID,
			"repository.url: must be https://HOST/PATH of letters, digits, '-', "
			"'_', '.', '~', '+', each part of the path beginning with one of the "
			"first two or '_'");
	return 0;
}

/* Nothing that git could read as an option or a range. */
static bool is_ref(const char *ref)
{
	return strchr("-/.", ref[0]) == NULL && ref[strspn(ref, ALNUM "/-_.+")] == '\0' &&
	       strstr(ref, "..") == NULL;
}

/* ERR_INVALID names the member. */
static int repository_arg_read(const struct json_node *arg, struct repository_arg *ret,
			       struct err *e)
{
	struct json_span ref = json_tree_get_text(arg, "ref");

	if (!repository_copy(json_tree_get_text(arg, "url"), ret->url, sizeof(ret->url)))
		return err_set(e, ERR_INVALID, "repository.url: is too long, or has a NUL");
	ret->ref[0] = '\0';
	if (ref.p != NULL &&
	    (!repository_copy(ref, ret->ref, sizeof(ret->ref)) || !is_ref(ret->ref)))
		return err_set(e, ERR_INVALID,
			       "repository.ref: must be the name of a branch or a tag, of letters, "
			       "digits, '/', '-', '_', '.', '+'");
	return read_url(ret, e);
}

/* ---- clone
 *
 * Git clone in a session that create_session has made: an ordinary execution of its
 * default user in its working directory, under its network policy, ended after CLONE_S seconds.
 * tool_create_session.c calls it, and ends the session if it fails. */

#define CLONE_S 120

/* The first member of the tool's own state. */
struct clone {
	struct tool_call *c;
	struct repository_arg arg;
	struct spec_exec spec;
	bool has_spec;
	struct execution_follower follower;
	struct run_end end;
	struct run_progress progress;
	struct loop_timer grace;
	char commit[65]; /* of HEAD, when the files are there. "": none, or not known */
	/* why is NULL: the files are there. Else a text for the model. */
	void (*on_cloned)(struct clone *k, const char *why);
};

void clone_release(struct clone *k); /* safe if it is all zero */

#define CLONE_BODY_MAX 8192
#define WHY_MAX (128U << 10)
#define GRACE_NS (500 * CLOCK_MS) /* in which records of refusals come */

static struct clone *clone_of_job(const struct run_end *n)
{
	return (struct clone *)((char *)(uintptr_t)n - offsetof(struct clone, end));
}

static bool is_there(const struct run_end *n)
{
	return clone_of_job(n)->follower.link != NULL;
}

/* Git is not stopped here. It ends by its timeout, or with its session. */
void clone_release(struct clone *k)
{
	if (k->c == NULL)
		return;
	loop_timer_cancel(core_loop(k->c->r->core), &k->grace);
	run_end_release(&k->end);
	execution_unfollow(&k->follower);
	run_progress_release(&k->progress);
	if (k->has_spec)
		spec_exec_release(&k->spec);
}

/* For the tool's progress(). */
static bool clone_progress(struct clone *k, uint64_t *ret_done, struct buf *message)
{
	if (k->follower.link == NULL)
		return false;
	run_progress_show(&k->progress, k->c, k->follower.execution, ret_done, message);
	return true;
}

/* ---- the request
 *
 * The clone is an execution like any other, so its body is read by the reader of executions. */

/* Prints the commit, if there is one: git clone itself writes nothing to its standard output. The
 * client's values are arguments, never text of the shell. */
#define SCRIPT                                                            \
	("name=$1; shift; git clone --depth 1 \"$@\" \"$name\" || exit; " \
	 "git -C \"./$name\" rev-parse --quiet --verify HEAD || :")

static void clone_write_body(const struct repository_arg *a, struct json *j)
{
	const char *const words[] = { "sh", "-c", SCRIPT, "sh", a->name };

	json_open(j, NULL, '{');
	json_open(j, "argv", '[');
	for (size_t i = 0; i < COUNT(words); i++)
		json_text(j, NULL, words[i]);
	if (a->ref[0] != '\0') {
		json_text(j, NULL, "--branch");
		json_text(j, NULL, a->ref);
	}
	json_text(j, NULL, "--");
	json_text(j, NULL, a->url);
	json_close(j, ']');
	json_open(j, "env", '{');
	json_text(j, "GIT_TERMINAL_PROMPT", "0");
	json_text(j, "GIT_ALLOW_PROTOCOL", "https");
	json_close(j, '}');
	json_uint(j, "timeout", CLONE_S);
	json_close(j, '}');
}

/* Read the argument. k is all zero. Start nothing on failure. */
static int clone_read(struct clone *k, struct tool_call *c, const struct json_node *arg,
		      struct err *e)
{
	struct json j;
	int done;

	k->c = k->end.c = c;
	if (repository_arg_read(arg, &k->arg, e) < 0)
		return -1;
	json_init_heap(&j, CLONE_BODY_MAX);
	clone_write_body(&k->arg, &j);
	k->has_spec = json_ok(&j);
	done = k->has_spec ? spec_exec_read(j.text, j.len, &k->spec, e)
			   : err_set(e, ERR_INVALID, "repository: is too large");
	json_release(&j);
	return done;
}

/* ---- the end
 *
 * on_waited() comes when git has ended. After a failure records of refusals get a moment to come
 * in. */

static bool is_good(const struct store_execution *row)
{
	return row->state == EXECUTION_EXITED && row->exit_code == 0;
}

/* Write git's messages, the policy's refusals, and the remedy. */
static void write_why(struct clone *k, const struct store_execution *row, struct buf *why)
{
	struct buf said = BUF_INIT(EXCERPT_TEXT_MAX);
	int sys;

	if (execution_fault(k->follower.execution, &sys) == EXECUTION_NO_PROGRAM ||
	    json_view_exit_code(row) == EXIT_NOT_FOUND) {
		buf_put_text(why, "repository: the template has no program git.");
		return;
	}
	buf_printf(why, "repository: git clone of %s failed%s", k->arg.url,
		   row->timed_out ? ": it took too long" : "");
	if (!row->timed_out && row->state == EXECUTION_FAILED)
		buf_printf(why, ": it could not be started");
	else if (!row->timed_out)
		buf_printf(why, " with exit code %d", json_view_exit_code(row));
	buf_put_text(why, ".\n");
	(void)excerpt_text(&k->end.excerpt, 1, &said);
	buf_put(why, said.data, said.len);
	buf_release(&said);
	if (k->end.denied.len > 0) {
		buf_put_text(why, "The network policy refused:\n");
		buf_put(why, k->end.denied.data, k->end.denied.len);
	}
	if (k->end.denied.len > 0 || json_tree_get(k->c->q.arguments, "network") == NULL)
		buf_printf(why, "The argument network must allow %s.\n", k->arg.host);
}

/* The cell's word for it, so only what looks like one is taken. */
static void read_commit(struct clone *k)
{
	struct buf said = BUF_INIT(EXCERPT_TEXT_MAX);
	size_t n;

	(void)excerpt_text(&k->end.excerpt, 0, &said);
	n = strspn(buf_text(&said), "0123456789abcdef");
	if ((n == 40 || n == 64) && strcmp(buf_text(&said) + n, "\n") == 0)
		memcpy(k->commit, said.data, n);
	buf_release(&said);
}

/* on_cloned() is called once, with the reason if it failed. */
static void on_written(struct run_end *n)
{
	struct clone *k = clone_of_job(n);
	const struct store_execution *row = execution_row(k->follower.execution);
	struct buf why = BUF_INIT(WHY_MAX);

	if (is_good(row)) {
		read_commit(k);
		k->on_cloned(k, NULL);
		return;
	}
	write_why(k, row, &why);
	k->on_cloned(k, buf_text(&why));
	buf_release(&why);
}

/* why: the wait itself failed. */
static void clone_report(struct clone *k, const struct err *why)
{
	struct request *r = k->c->r;
	struct err e = { 0 };

	if (why == NULL && k->follower.link != NULL) {
		run_end_start(&k->end);
		return;
	}
	IGNORED(err_set_reason(&e, REASON_GONE, "session %s has ended", r->session_id), "answered");
	reply_error(r, why != NULL ? why : &e);
}

static void on_grace(struct loop_timer *t)
{
	clone_report(t->arg, NULL);
}

static void on_waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct clone *k = tool_of(r)->own; /* the first there */
	struct loop *l = core_loop(r->core);

	if (why != NULL || k->follower.link == NULL ||
	    is_good(execution_row(k->follower.execution))) {
		clone_report(k, why);
		return;
	}
	k->grace.on_expire = on_grace;
	k->grace.arg = k;
	loop_timer_set(l, &k->grace, loop_now_ns(l) + GRACE_NS);
}

/* ---- the start
 *
 * The execution is followed, so its row and its log stay. */

static void ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

/* on_cloned is set, the session runs. If the session ends first, the call is answered here, and
 * on_cloned is not called. If the start fails, nothing is called. */
static int clone_start(struct clone *k, struct session *s, struct err *e)
{
	struct request *r = k->c->r;
	struct execution *x;

	k->spec.spec.actor = request_actor(r);
	if (store_net_last(core_store(r->core), &k->end.net_seq, e) < 0)
		return -1;
	x = execution_start(s, &k->spec.spec, e);
	if (x == NULL)
		return -1;
	k->follower.on_progress = ignore_output;
	execution_follow(x, &k->follower);
	k->end.x = x;
	k->end.is_there = is_there;
	k->end.on_written = on_written;
	r->wait.on_done = on_waited;
	execution_wait(x, &r->wait);
	return 0;
}

/* ---- the tool
 *
 * create_session_begin() writes the body of POST /v1/sessions and starts the session. on_made() and
 * on_cloned() continue. */

/* Bytes of the body that the arguments become. */
#define BODY_MAX (256U << 10)

struct tool_create {
	struct clone clone; /* first. All zero without a repository to clone */
	struct session_making making;
	bool is_unnamed; /* the session runs, and no client knows its id */
};

/* Repeatable. */
static void end_unnamed(struct tool_call *c)
{
	struct tool_create *m = c->own;
	struct request *r = c->r;
	struct err e;

	if (!m->is_unnamed)
		return;
	m->is_unnamed = false;
	IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e),
		"then the session ends by its timeout");
}

static void create_session_release(struct tool_call *c)
{
	struct tool_create *m = c->own;

	clone_release(&m->clone);
	session_making_release(&m->making);
	end_unnamed(c);
}

static bool create_session_progress(struct tool_call *c, uint64_t *ret_done, struct buf *message)
{
	struct tool_create *m = c->own;

	return clone_progress(&m->clone, ret_done, message);
}

/* A preset's name has no dot, colon, slash or star. Any other word is a host. */
static bool is_preset(struct json_span word)
{
	for (size_t i = 0; i < word.n; i++)
		if (strchr(".:/*", word.p[i]) != NULL)
			return false;
	return true;
}

/* list is a text or an array of texts. presets: which of the two kinds of words to write. */
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

/* Names of presets and hosts, and the member for packages, as a document of policy.h. Either may be
 * NULL. */
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

/* Absent arguments are absent in the body, so the defaults are those of the native interface. */
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

/* The session is the client's from here on. */
static void create_session_answer(struct tool_call *c, struct session *s)
{
	const struct tool_create *m = c->own;
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
	struct tool_create *m = c->own;
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
	m->is_unnamed = c->done; /* cancelled by then: no client gets the id */
	create_session_answer(c, s);
}

/* session_making calls this once. */
static void on_made(struct session_making *making, struct session *s, const struct err *why)
{
	struct tool_call *c = tool_of(making->r);
	struct tool_create *m = c->own;
	struct err e = { 0 };

	if (why != NULL) {
		reply_error(c->r, why);
	} else if (m->clone.c == NULL) {
		create_session_answer(c, s);
	} else {
		m->is_unnamed = true;
		m->clone.on_cloned = on_cloned;
		if (clone_start(&m->clone, s, &e) < 0)
			reply_error(c->r, &e);
	}
}

/* The repository is checked before a session is made for it. */
static void create_session_begin(struct tool_call *c)
{
	const struct json_node *repository = json_tree_get(c->q.arguments, "repository");
	struct tool_create *m = c->own;
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
	.own_size = sizeof(struct tool_create),
	.start = create_session_begin,
	.progress = create_session_progress,
	.release = create_session_release,
};
/* clang-format on */
