/* verb_create.c - cordon create: a session from options, its id on stdout. */
#include "compose.h"
#include "create.h"
#include "member.h"
#include "show.h"
#include "show_json.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	struct create_options make;
	const char *timeout, *idle_timeout, *on_timeout, *on_idle, *mcp;
	struct option_list env, writable, exportable, secrets, ports;
	bool keep_diff;
};

#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option options[] = {
	CREATE_OPTIONS(struct fields),
	{ "env", "K=V", OPTION_LIST, FIELD(env), 0, 0,
	  "sets a variable for every command of the session" },
	{ "secret", "NAME[=WAY]", OPTION_LIST, FIELD(secrets), 0, 0,
	  "provides a secret as broker:VAR, env:VAR, file:NAME or socket:PROGRAM" },
	{ "port", "PORT", OPTION_LIST, FIELD(ports), 0, 0,
	  "opens a port for clients without a key; its URL: cordon port, or --json" },
	{ "keep-diff", NULL, OPTION_FLAG, FIELD(keep_diff), 0, 0,
	  "keeps the list of changed files when the session ends, for cordon diff" },
	{ "timeout", "TIME", OPTION_TEXT, FIELD(timeout), 0, 0,
	  "how long the session may live, such as 10m; 0: no limit, if that is allowed" },
	{ "idle-timeout", "TIME", OPTION_TEXT, FIELD(idle_timeout), 0, 0,
	  "how long it may be idle" },
	{ "on-timeout", "WHAT", OPTION_TEXT, FIELD(on_timeout), 0, 0,
	  "what happens then: kill, pause or pause_files (pause without memory)" },
	{ "on-idle", "WHAT", OPTION_TEXT, FIELD(on_idle), 0, 0,
	  "what happens then: kill, pause or pause_files (pause without memory)" },
	{ "writable", "DIR", OPTION_LIST, FIELD(writable), 0, 0,
	  "files may be written through the API only below these" },
	{ "exportable", "DIR", OPTION_LIST, FIELD(exportable), 0, 0,
	  "files may be read through the API only below these" },
	{ "mcp", "FILE", OPTION_TEXT, FIELD(mcp), 0, 0,
	  "MCP servers, each in a session of its own: {\"servers\": {NAME: {\"command\": ...}}}" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static int add_rules(json_t *body, const struct fields *f, struct err *e)
{
	json_t *rules;

	if (f->writable.n == 0 && f->exportable.n == 0)
		return 0;
	rules = json_object();
	if (rules == NULL || json_object_set_new(body, "rules", rules) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (f->writable.n > 0 &&
	    compose_list(rules, "writable", "--writable", f->writable.items, f->writable.n, e) < 0)
		return -1;
	return f->exportable.n == 0 ? 0
				    : compose_list(rules, "exportable", "--exportable",
						   f->exportable.items, f->exportable.n, e);
}

/* The file as it is: the server checks it. */
static int add_mcp(json_t *body, const char *path, struct err *e)
{
	json_error_t why;
	json_t *mcp;

	if (path == NULL)
		return 0;
	mcp = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
	if (mcp == NULL) {
		compose_json_fault(e, "--mcp", path, &why);
		return -1;
	}
	if (json_object_set_new(body, "mcp", mcp) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

static json_t *compose(const struct fields *f, struct err *e)
{
	OWN_JSON *body = create_body(&f->make, e);

	if (body == NULL || compose_pairs(body, "env", "--env", &f->env, e) < 0 ||
	    compose_time_text(body, "timeout", "--timeout", f->timeout, e) < 0 ||
	    compose_time_text(body, "idle_timeout", "--idle-timeout", f->idle_timeout, e) < 0 ||
	    compose_text(body, "on_timeout", "--on-timeout", f->on_timeout, e) < 0 ||
	    compose_text(body, "on_idle", "--on-idle", f->on_idle, e) < 0 ||
	    add_rules(body, f, e) < 0 || add_mcp(body, f->mcp, e) < 0 ||
	    compose_secrets(body, "secrets", &f->secrets, e) < 0 ||
	    (f->ports.n > 0 && compose_ports(body, "ports", &f->ports, e) < 0))
		return NULL;
	if (f->keep_diff && json_object_set_new(body, "keep_diff", json_true()) < 0) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	return json_incref(body);
}

static int create(const struct fields *f, const json_t *body, json_t **ret, struct err *e)
{
	OWN_API_CALL a = { 0 };

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0)
		return -1;
	return create_session(&a, body, ret, e);
}

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_JSON *session = NULL;
	OWN_JSON *body = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_create, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	body = compose(&f, &e);
	if (body == NULL)
		return args_refused(&verb_create, &e);
	if (create(&f, body, &session, &e) < 0)
		return args_fail(&e);
	if (f.common.json) {
		show_json(session, true, stdout);
	} else {
		show_text(member_text(session, "id", ""), stdout);
		(void)putchar('\n');
	}
	return ARGS_OK;
}

const struct verb verb_create = {
	.name = "create",
	.usage = "[options]",
	.summary = "Creates a session and prints its id.",
	.text = "The session is ready when its id is printed.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
