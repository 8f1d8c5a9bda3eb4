/* verb_create.c - cordon create: a session from options, its id on stdout.
 *
 * The options become one JSON body (create.c, compose.c), and the server checks it. The answer
 * comes when the session is ready, so the printed id can be used at once. */
#include "cmd/client/compose.h"
#include "cmd/client/create.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* The fields of one call. Rows with a member go into the body by themselves. The others are
 * added by verb_create_compose(). */
struct create_fields {
	struct args_common common;
	struct create_options make;
	const char *timeout, *idle_timeout, *on_timeout, *on_idle, *mcp, *trace;
	struct option_list env, writable, exportable, secrets, ports, alarms, redact, watch_reads;
	bool keep_diff;
};

#define FIELD(name) offsetof(struct create_fields, name)

/* clang-format off */
static const struct option options[] = {
	CREATE_OPTIONS(struct create_fields),
	{ "env", "K=V", OPTION_PAIRS, FIELD(env), 0, 0,
	  "sets a variable for every command of the session", 'e', .member = "env" },
	{ "secret", "NAME[=WAY]", OPTION_LIST, FIELD(secrets), 0, 0,
	  "provides a secret as broker:VAR, env:VAR, file:NAME or socket:PROGRAM", .values = "@secrets" },
	{ "port", "PORT", OPTION_LIST, FIELD(ports), 0, 0,
	  "opens a port for clients without a key; its URL: cordon port, or --json" },
	{ "alarm", "KIND=ACTION", OPTION_LIST, FIELD(alarms), 0, 0,
	  "what an alarm does: none, pause or end, such as escape_attempt=end (doc/traces.md)" },
	{ "redact", "NAME", OPTION_LIST, FIELD(redact), 0, 0,
	  "covers in output: email, phone, card, iban, ip, token or pattern:EXPR (doc/secrets.md)", .member = "redact",
	  .values = "email phone card iban ip token" },
	{ "trace", "WHAT", OPTION_TEXT, FIELD(trace), 0, 0,
	  "programs, calls or files: records starts of programs, some calls, opened files", .member = "trace", .values = "programs calls files" },
	{ "watch-reads", "PATH", OPTION_LIST, FIELD(watch_reads), 0, 0,
	  "records in the audit log who asks for these files, such as /data/** (doc/traces.md)", .member = "watch_reads" },
	{ "keep-diff", NULL, OPTION_FLAG, FIELD(keep_diff), 0, 0,
	  "keeps the list of changed files when the session ends, for cordon diff", .member = "keep_diff" },
	{ "timeout", "TIME", OPTION_SPAN, FIELD(timeout), 0, 0,
	  "how long the session may live, such as 10m; 0: no limit, if that is allowed", .member = "timeout" },
	{ "idle-timeout", "TIME", OPTION_SPAN, FIELD(idle_timeout), 0, 0,
	  "how long it may be idle", .member = "idle_timeout" },
	{ "on-timeout", "WHAT", OPTION_TEXT, FIELD(on_timeout), 0, 0,
	  "what happens then: kill, pause or pause_files (pause without memory)", .member = "on_timeout", .values = "kill pause pause_files" },
	{ "on-idle", "WHAT", OPTION_TEXT, FIELD(on_idle), 0, 0,
	  "what happens then: kill, pause or pause_files (pause without memory)", .member = "on_idle", .values = "kill pause pause_files" },
	{ "writable", "DIR", OPTION_LIST, FIELD(writable), 0, 0,
	  "files may be written through the API only below these", .member = "rules.writable" },
	{ "exportable", "DIR", OPTION_LIST, FIELD(exportable), 0, 0,
	  "files may be read through the API only below these", .member = "rules.exportable" },
	{ "mcp", "FILE", OPTION_TEXT, FIELD(mcp), 0, 0,
	  "MCP servers, each in a session of its own: {\"servers\": {NAME: {\"command\": ...}}}" },
	ARGS_COMMON(struct create_fields),
};
/* clang-format on */

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

/* The parts of the body that need code: NULL with e set, else the caller owns the body. */
static json_t *verb_create_compose(const struct create_fields *f, struct err *e)
{
	OWN_JSON *body = create_body(&verb_create, f, &f->make, e);

	if (body == NULL || add_mcp(body, f->mcp, e) < 0 ||
	    compose_secrets(body, "secrets", &f->secrets, e) < 0 ||
	    (f->ports.n > 0 && compose_ports(body, "ports", &f->ports, e) < 0) ||
	    compose_alarms(body, "alarms", &f->alarms, e) < 0)
		return NULL;
	return json_incref(body);
}

static int verb_create_create(const struct create_fields *f, const json_t *body, json_t **ret,
			      struct err *e)
{
	OWN_API_CALL a = { 0 };

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0)
		return -1;
	return create_session(&a, body, ret, e);
}

static int verb_create_run(int argc, char **argv)
{
	static struct create_fields f;
	static struct args_words words;
	OWN_JSON *session = NULL;
	OWN_JSON *body = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_create, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	body = verb_create_compose(&f, &e);
	if (body == NULL)
		return args_refused(&verb_create, &e);
	if (verb_create_create(&f, body, &session, &e) < 0)
		return args_refused(&verb_create, &e);
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
	.examples = "id=$(cordon create --timeout 1h --allow example.org)\n"
		    "cordon create --template python --memory 2G --cpus 2 --metadata task=review\n"
		    "cordon create --level microvm --policy pypi,npm --secret github_token\n"
		    "cordon create --persist --keep 7d --volume data:/data\n",
	.options = options,
	.noptions = COUNT(options),
	.run = verb_create_run,
};
