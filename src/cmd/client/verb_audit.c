/* verb_audit.c - cordon audit: the audit log. Sub-verbs are rows of the table at the end. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/client/api_call.h"
#include "cmd/client/audit_admin.h"
#include "cmd/client/audit_check.h"
#include "cmd/client/audit_records.h"
#include "cmd/client/audit_witness.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* ---- rotate: cordon-notary makes a new key, and every audit log gets it */

#define PATH "/v1/audit/rotate"
#define TRIES 3000 /* ten minutes */

/* Until the former key is destroyed: then every log has the new one. */
static int wait_for_logs(struct api_call *a, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 200000000 };

	for (int i = 0; i < TRIES; i++) {
		OWN_JSON *now = NULL;
		struct target t;

		target_init(&t, PATH);
		if (api_call_json(a, "GET", &t, NULL, &now, e) < 0)
			return -1;
		if (member_text(now, "former_vkey", NULL) == NULL)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_set(
		e, ERR_SYSTEM,
		"the logs do not have the new key yet. The server continues, and destroys the "
		"former key when they have it");
}

/* The new key is printed before the wait, so that it is not lost if the wait is interrupted. */
static int audit_rotate_run(const struct verb *v, const struct args_common *o)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *keys = NULL;
	struct target t;
	struct err e;

	target_init(&t, PATH);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(v, &e);
	if (api_call_json(&a, "POST", &t, NULL, &keys, &e) < 0)
		return args_fail(&e);
	/* At once: the new key is what must be kept, also if the wait is interrupted. */
	if (o->json) {
		show_json(keys, true, stdout);
	} else {
		(void)printf("former ");
		show_text(member_text(keys, "former_vkey", "-"), stdout);
		(void)printf("\nkey    ");
		show_text(member_text(keys, "vkey", "-"), stdout);
		(void)putchar('\n');
	}
	(void)fflush(stdout);
	return wait_for_logs(&a, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

/* The fields of all sub-verbs together. Each uses some and ignores the others. */
struct audit_fields {
	struct args_common common;
	const char *tenant, *since, *quorum, *out;
	const char *epoch, *session, *type, *after, *on_behalf, *keep;
	struct option_list keys, witnesses, values;
	bool follow;
};

/* Each option belongs to some of the sub-verbs, which its help names first. Options of others
 * are ignored. */
#define FIELD(name) offsetof(struct audit_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "tenant", "ID", OPTION_TEXT, FIELD(tenant), 0, 0,
	  "the log of this tenant, or 'node'; for the operator (default: the key's own)" },
	{ "key", "VKEY", OPTION_LIST, FIELD(keys), 0, 0,
	  "verify: a key that signed, as it was kept; repeatable (default: the one the log names)" },
	{ "since", "FILE", OPTION_TEXT, FIELD(since), 0, 0,
	  "verify: a checkpoint that was kept; the log must extend it" },
	{ "witness", "VKEY", OPTION_LIST, FIELD(witnesses), 0, 0,
	  "verify: a witness that must have signed a checkpoint, or that of --since (repeatable)" },
	{ "quorum", "N", OPTION_TEXT, FIELD(quorum), 0, 0,
	  "verify: how many of the witnesses must have (default: all)" },
	{ "out", "FILE", OPTION_TEXT, FIELD(out), 0, 0,
	  "export: writes to this file, not to stdout; witness: the signed checkpoint, too" },
	{ "epoch", "N", OPTION_TEXT, FIELD(epoch), 0, 0,
	  "an earlier log, which ended by an alarm (default: the last one)" },
	{ "follow", NULL, OPTION_FLAG, FIELD(follow), 0, 0,
	  "ls, export: waits for new records", 'f' },
	{ "session", "ID", OPTION_TEXT, FIELD(session), 0, 0, "ls, erase: records of this session" },
	{ "type", "TYPE", OPTION_TEXT, FIELD(type), 0, 0,
	  "ls: records of this type, such as execution.started" },
	{ "after", "NUMBER", OPTION_TEXT, FIELD(after), 0, 0, "ls: records after this one" },
	{ "on-behalf", "NAME", OPTION_TEXT, FIELD(on_behalf), 0, 0,
	  "erase: records whose client named this one in X-Cordon-Actor" },
	{ "value", "NAME", OPTION_LIST, FIELD(values), 0, 0,
	  "erase: only this sealed value, such as path; may be repeated (default: all)" },
	{ "keep", "TIME", OPTION_SPAN, FIELD(keep), 0, 0,
	  "prune: how old records may be to stay, such as 30d" },
	ARGS_COMMON(struct audit_fields),
};
/* clang-format on */

/* The second word is the file, if there is one. */
static int run_verify(const struct audit_fields *f, const struct args_words *words)
{
	const struct audit_verify_options c = { .file = words->n > 1 ? words->at[1] : NULL,
						.tenant = f->tenant,
						.since = f->since,
						.keys = &f->keys,
						.witnesses = &f->witnesses,
						.quorum = f->quorum };

	if (words->n > 2)
		return args_wrong(&verb_audit, "verify: one file, or none");
	return audit_check_run(&verb_audit, &f->common, &c);
}

/* The words behind "witness" come in pairs, which audit_witness_run() checks. */
static int run_witness(const struct audit_fields *f, const struct args_words *words)
{
	const struct audit_witness w = {
		.tenant = f->tenant, .out = f->out, .words = words->at + 1, .n = words->n - 1
	};

	return audit_witness_run(&verb_audit, &f->common, &w);
}

/* The six that need the server only. number: of a record, or NULL. */
static struct audit_admin admin_of(const struct audit_fields *f, const char *number)
{
	return (struct audit_admin){ .tenant = f->tenant,
				     .epoch = f->epoch,
				     .session = f->session,
				     .type = f->type,
				     .after = f->after,
				     .on_behalf = f->on_behalf,
				     .keep = f->keep,
				     .out = f->out,
				     .values = &f->values,
				     .follow = f->follow,
				     .seq = number };
}

/* A table of the sub-verbs that are one request, with the number of words that each takes. */
static int run_admin(const struct audit_fields *f, const struct args_words *words)
{
	static const struct {
		const char *name;
		int (*run)(const struct verb *v, const struct args_common *o,
			   const struct audit_admin *f);
		size_t min, max; /* words behind it */
	} rows[] = {
		{ "ls", audit_admin_ls, 0, 0 },	      { "show", audit_admin_show, 1, 1 },
		{ "head", audit_admin_head, 0, 0 },   { "export", audit_admin_export, 0, 0 },
		{ "erase", audit_admin_erase, 0, 1 }, { "prune", audit_admin_prune, 0, 0 },
	};
	const struct audit_admin a = admin_of(f, words->n > 1 ? words->at[1] : NULL);

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (strcmp(rows[i].name, words->at[0]) != 0)
			continue;
		if (words->n - 1 < rows[i].min || words->n - 1 > rows[i].max)
			return args_wrong(&verb_audit, "%s: %s", rows[i].name,
					  rows[i].max == 0 ? "no further words"
							   : "the number of one record");
		return rows[i].run(&verb_audit, &f->common, &a);
	}
	return ARGS_FAILED;
}

/* The rotation changes the key of every log at once, so the sub-verb takes no further words. */
static int run_rotate(const struct audit_fields *f, const struct args_words *words)
{
	if (words->n > 1)
		return args_wrong(&verb_audit, "rotate: no more words");
	return audit_rotate_run(&verb_audit, &f->common);
}

/* The word goes into queries as it is, so it must be a whole id. */
static int run_records(const struct audit_fields *f, const struct args_words *words)
{
	const struct audit_records r = { .tenant = f->tenant, .session = words->at[1] };

	if (words->n != 2)
		return args_wrong(&verb_audit, "records: the id of one session");
	return audit_records_run(&verb_audit, &f->common, &r);
}

/* Each gets the words with its own name first. */
static const struct sub {
	const char *name;
	int (*run)(const struct audit_fields *f, const struct args_words *words);
} subs[] = {
	{ "verify", run_verify },   { "witness", run_witness }, { "ls", run_admin },
	{ "show", run_admin },	    { "head", run_admin },	{ "export", run_admin },
	{ "erase", run_admin },	    { "prune", run_admin },	{ "rotate", run_rotate },
	{ "records", run_records },
};

/* The exit code is that of the sub-verb. verify and records have verdicts of their own. */
static int audit_run(int argc, char **argv)
{
	static struct audit_fields f;
	static struct args_words words;
	int code = args_read(&verb_audit, argc, argv, &f, &words, 1, ARGS_WORDS_MAX);

	if (code != ARGS_GO)
		return code;
	for (size_t i = 0; i < COUNT(subs); i++)
		if (strcmp(words.at[0], subs[i].name) == 0)
			return subs[i].run(&f, &words);
	return args_wrong(&verb_audit, "there is no 'cordon audit %.40s'", words.at[0]);
}

const struct verb verb_audit = {
	.name = "audit",
	.usage = "ls | show NUMBER | head | export | verify [FILE] | records SESSION | erase | "
		 "prune | witness URL "
		 "VKEY... | rotate",
	.summary = "Prints, verifies and exports the audit log, has it cosigned, and gives it a "
		   "new key.",
	.text = "ls prints a line for each record: number, time, type, interface and key, session, "
		"facts.\n"
		"head prints the last checkpoint, to be kept elsewhere. export writes what verify "
		"reads.\n"
		"erase erases sealed values (of a record, --session or --on-behalf), prune deletes "
		"old records.\n"
		"Both need a key of the scopes audit and admin, the others one of scope audit.\n"
		"\n"
		"verify reads the log from the server, or from a FILE that was exported ('-': "
		"standard input), and\n"
		"exits with 0 if it is good, 1 if it was changed (with the first record that "
		"cannot be believed),\n"
		"2 if it is not complete (records, a checkpoint or a witness are missing), 3 if "
		"it cannot be read.\n"
		"Without --key it believes the key that the log names, which only shows that the "
		"log agrees\n"
		"with itself. examples/verify.py is a second verifier, for Python's standard "
		"library alone.\n"
		"\n"
		"records compares the network records of a session with the batches that the log "
		"has of them, and\n"
		"exits like verify. It needs a key of the scopes audit and read.\n"
		"\n"
		"witness has witnesses (C2SP tlog-witness) cosign the last checkpoint, each by its "
		"URL and its\n"
		"verifier key, and gives their signatures to the server. Run it from cron.\n"
		"\n"
		"rotate has the server sign with a new key, prints it, and waits until every log "
		"has "
		"it. Keep both\n"
		"keys: a log from before is verified with the former one. verify believes the new "
		"one "
		"only with a\nstatement that the former key has signed, or by --key.\n",
	.examples = "cordon audit ls --session ID --type execution.started\n"
		    "cordon audit head > last.checkpoint\n"
		    "cordon audit export --out audit.jsonl\n"
		    "cordon audit erase --on-behalf ann@example.com\n"
		    "cordon audit verify --key \"$(cat node.vkey)\" --since last.checkpoint\n"
		    "cordon audit verify audit.jsonl\n"
		    "cordon audit records ID\n"
		    "cordon audit witness https://witness.example VKEY\n",
	.options = options,
	.noptions = COUNT(options),
	.run = audit_run,
};
