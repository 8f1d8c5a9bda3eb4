/* verb_report.c - cordon report: a signed report for an auditor, and its verification.
 *
 * A report is a DSSE envelope. Its signature covers the type and the bytes of the payload, so it is
 * verified before anything of the payload is believed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/base/colour.h"
#include "cmd/client/audit_key.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/saved_file.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/base64.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"

#define TYPE "application/vnd.cordon.report+json"
#define FILE_MAX ((size_t)1 << 20)

/* The exit codes of `report verify`, as those of `audit verify`. */
enum { REPORT_GOOD, REPORT_CHANGED, REPORT_UNREADABLE = 3 };

struct report_fields {
	struct args_common common;
	const char *session, *output, *key;
};

/* clang-format off */
static const struct option options[] = {
	{ "session", "ID", OPTION_TEXT, offsetof(struct report_fields, session), 0, 0,
	  "about this session, also after its end" },
	{ "output", "FILE", OPTION_TEXT, offsetof(struct report_fields, output), 0, 0,
	  "writes the signed report to this file, for cordon report verify", 'o' },
	{ "key", "VKEY", OPTION_TEXT, offsetof(struct report_fields, key), 0, 0,
	  "of verify: the key that must have signed (attest_vkey of an earlier report)" },
	ARGS_COMMON(struct report_fields),
};
/* clang-format on */

/* A report after its verification. why is a text of this program. */
struct envelope {
	json_t *payload; /* owned */
	struct tlog_vkey key;
	const char *why; /* it is not good. NULL: it is */
};

/* The decoded payload, owned by the caller. NULL: not base64, or no memory. */
static char *payload_bytes(const json_t *j, size_t *ret_len)
{
	const char *text = member_text(j, "payload", "");
	size_t n = strlen(text);
	char *bytes = malloc(n + 1);
	ssize_t got = bytes == NULL ? -1 : base64_decode(text, n, (uint8_t *)bytes);

	if (got >= 0) {
		*ret_len = (size_t)got;
		return bytes;
	}
	free(bytes);
	return NULL;
}

/* "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body. The lengths keep type and body apart, so
 * no other pair has the same signed text. */
static bool report_holds(const struct tlog_vkey *key, const char *body, size_t len,
			 const char *sig_text)
{
	struct buf b = BUF_INIT(FILE_MAX + 256);
	uint8_t sig[TLOG_SIG + 8];
	struct err e;
	bool good;

	if (strlen(sig_text) != BASE64_LENGTH(TLOG_SIG) ||
	    base64_decode(sig_text, strlen(sig_text), sig) != TLOG_SIG)
		return false;
	buf_printf(&b, "DSSEv1 %zu %s %zu ", strlen(TYPE), TYPE, len);
	buf_put(&b, body, len);
	good = buf_check(&b, &e) == 0 && audit_key_holds(NULL, key->key, buf_text(&b), b.len, sig);
	buf_release(&b);
	return good;
}

/* wanted: NULL: the key that the report itself names. Then it is only known not to have been
 * changed by one who has no key of a notary. The order is type, form, key, signature. payload is
 * set even if the signature is wrong, so that the caller can tell a changed report from another
 * file. It must not be printed then. */
static void envelope_read(const json_t *j, const char *wanted, struct envelope *ret)
{
	const json_t *sig = json_array_get(member_group(j, "signatures"), 0);
	size_t len = 0;
	OWN_MEM char *body = payload_bytes(j, &len);
	struct err e = { 0 };
	const char *text;

	*ret = (struct envelope){ .why = "it is not a report of Cordon" };
	if (strcmp(member_text(j, "payloadType", ""), TYPE) != 0 || body == NULL)
		return;
	ret->payload = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
	if (member_number(ret->payload, "cordon_report", 0) != 1)
		return;
	text = wanted != NULL ? wanted : member_text(ret->payload, "attest_vkey", "");
	ret->why = "its key is malformed";
	if (tlog_vkey_parse(text, strlen(text), &ret->key, &e) < 0)
		return;
	ret->why = "the signature is wrong, or of another key";
	if (report_holds(&ret->key, body, len, member_text(sig, "sig", "")))
		ret->why = NULL;
}

/* ---- for people
 *
 * Sections of the printed report. All text in it is escaped: names of keys and templates come
 * from tenants. */

static void report_line(const char *name, const char *value)
{
	(void)printf("%-14s ", name);
	show_text(value, stdout);
	(void)putchar('\n');
}

/* A control that is not in force is shown in capital letters as well as in colour. */
static void print_controls(const json_t *list)
{
	const json_t *one;
	size_t at;

	(void)puts("\ncontrols:");
	json_array_foreach((json_t *)(uintptr_t)list, at, one)
	{
		bool good = member_bool(one, "in_force");
		const char *found = member_text(one, "found", NULL);

		(void)printf("  %s%-7s%s ", colour(stdout, good ? COLOUR_GOOD : COLOUR_BAD),
			     good ? "yes" : "NO", colour(stdout, COLOUR_NONE));
		show_text(member_text(one, "control", "?"), stdout);
		(void)fputs("\n          ", stdout);
		show_text(member_text(one, "checked", ""), stdout);
		if (found != NULL) {
			(void)fputs(" (", stdout);
			show_text(found, stdout);
			(void)putchar(')');
		}
		(void)putchar('\n');
	}
}

/* Keys with their scopes, never their values. The report does not have these. */
static void print_keys(const json_t *list)
{
	const json_t *one;
	size_t at;

	if (json_array_size(list) == 0)
		return;
	(void)puts("\nkeys:");
	json_array_foreach((json_t *)(uintptr_t)list, at, one)
	{
		char scopes[64];

		show_json_cell(json_object_get(one, "scopes"), scopes, sizeof(scopes));
		(void)fputs("  ", stdout);
		show_text(member_text(one, "id", "?"), stdout);
		(void)putchar(' ');
		show_text(scopes, stdout);
		(void)putchar(' ');
		show_text(member_text(one, "name", ""), stdout);
		(void)fputs(", expires ", stdout);
		show_text(member_text(one, "expires_at", "never"), stdout);
		(void)putchar('\n');
	}
}

/* A policy is named by its digest, so that an auditor can compare it with a file. */
static void print_policy(const char *name, const json_t *one)
{
	report_line(name, member_text(one, "sha256", "none"));
}

static void print_policies(const json_t *p)
{
	(void)puts("\npolicies:");
	print_policy("  node", json_object_get(p, "node"));
	print_policy("  tenant", json_object_get(p, "tenant"));
	report_line("  of sessions", member_text(p, "session_default", "?"));
}

/* The rows of `cordon doctor` that say no. */
static void print_findings(const json_t *doctor)
{
	const json_t *content = member_group(doctor, "content"), *one;
	size_t at;

	json_array_foreach((json_t *)(uintptr_t)member_group(content, "rows"), at, one)
	{
		if (member_bool(one, "ok"))
			continue;
		(void)printf("    %sno%s  ", colour(stdout, COLOUR_WARN),
			     colour(stdout, COLOUR_NONE));
		show_text(member_text(one, "group", "?"), stdout);
		(void)fputs(", ", stdout);
		show_text(member_text(one, "name", "?"), stdout);
		(void)fputs(": ", stdout);
		show_text(member_text(one, "detail", ""), stdout);
		(void)putchar('\n');
	}
}

/* Findings and tests are recorded by other commands, perhaps long before. So each has its date,
 * or the command that would record it. */
static void print_evidence(const json_t *p)
{
	const json_t *doctor = json_object_get(p, "doctor"), *tests = json_object_get(p, "tests");
	const json_t *content = member_group(tests, "content"), *results;

	(void)puts("\nevidence:");
	report_line("  doctor",
		    member_text(doctor, "recorded_at", "not recorded (cordon doctor --record)"));
	print_findings(doctor);
	report_line("  tests",
		    member_text(tests, "recorded_at", "not recorded (cordon doctor --tests FILE)"));
	results = member_group(content, "results");
	if (!json_is_object(results))
		return;
	(void)printf("    %llu tests, %llu good, %llu failed, of ",
		     (unsigned long long)member_number(content, "tests", 0),
		     (unsigned long long)member_number(results, "OK", 0),
		     (unsigned long long)member_number(content, "failed_count", 0));
	show_text(member_text(content, "version", "?"), stdout);
	(void)putchar('\n');
}

static void print_session(const json_t *s)
{
	(void)puts("\nsession:");
	report_line("  id", member_text(s, "id", "?"));
	report_line("  state", member_text(s, "state", "?"));
	report_line("  template", member_text(s, "template", "?"));
	report_line("  version", member_text(s, "template_id", "?"));
	report_line("  level", member_text(s, "level", "?"));
	report_line("  profile", member_text(s, "profile", "?"));
	report_line("  network", member_text(s, "network", "as the node's default"));
	report_line("  created", member_text(s, "created_at", "?"));
	report_line("  ended", member_text(s, "ended_at", "not yet"));
}

/* The order is that of an auditor: who and when, controls, settings, evidence, keys, and the
 * audit log. */
static void print_report(const struct envelope *v)
{
	const json_t *p = v->payload, *audit = member_group(p, "audit");
	const json_t *check = member_group(audit, "verification");

	report_line("report of", member_text(p, "time", "?"));
	report_line("tenant", member_text(p, "tenant", "?"));
	report_line("version", member_text(p, "version", "?"));
	report_line("kernel", member_text(p, "kernel", "?"));
	report_line("signed by", v->key.name);
	if (json_is_object(json_object_get(p, "session")))
		print_session(json_object_get(p, "session"));
	print_controls(member_group(p, "controls"));
	(void)puts("\nsettings:");
	show_tree(json_object_get(p, "settings"), stdout);
	print_policies(member_group(p, "policies"));
	print_evidence(member_group(p, "evidence"));
	print_keys(member_group(p, "keys"));
	(void)puts("\naudit log:");
	report_line("  name", member_text(audit, "origin", "?"));
	(void)printf("%-14s %llu\n", "  records",
		     (unsigned long long)member_number(audit, "records", 0));
	report_line("  signed at", member_text(audit, "signed_at", "never"));
	report_line("  alarm", member_text(audit, "alarm", "none"));
	report_line("  compared", member_text(check, "result", "?"));
	(void)printf("%-14s %llu of %llu signed\n", "  records",
		     (unsigned long long)member_number(check, "records", 0),
		     (unsigned long long)member_number(check, "size", 0));
}

/* ---- saving, fetching and verifying
 *
 * The signed form is saved and printed, never the payload alone. */

/* Mode 0600, because a report names keys and settings. */
static int report_save(const char *path, const json_t *j, struct err *e)
{
	OWN_MEM char *text = json_dumps(j, JSON_COMPACT);
	struct saved_file f;
	int done;

	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (saved_file_open(&f, path, e) < 0)
		return -1;
	done = saved_file_write(&f, text, strlen(text), e);
	if (done == 0)
		done = saved_file_write(&f, "\n", 1, e);
	if (done == 0)
		done = saved_file_commit(&f, 0600, e);
	saved_file_release(&f);
	return done;
}

/* The file is not trusted, so it is bounded, and nothing of it is printed before
 * its signature is good. */
static int report_verify(const struct report_fields *f, const char *path)
{
	OWN_MEM char *text = malloc(FILE_MAX);
	struct envelope v = { 0 };
	struct err e = { 0 };
	ssize_t n = text == NULL ? err_set(&e, ERR_SYSTEM, "out of memory")
				 : io_read_file(AT_FDCWD, path, text, FILE_MAX, &e);
	OWN_JSON *j = n < 0 ? NULL : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	int code;

	if (n < 0) {
		(void)args_fail(&e);
		return REPORT_UNREADABLE;
	}
	envelope_read(j, f->key, &v);
	if (v.why == NULL && f->common.json)
		show_json(v.payload, true, stdout);
	else if (v.why == NULL)
		print_report(&v);
	if (v.why != NULL)
		(void)fprintf(stderr, "cordon: the report is not good: %s\n", v.why);
	else
		(void)fprintf(stderr, "cordon: the signature is good%s\n",
			      f->key != NULL
				      ? ""
				      : ", by the key that the report names (--key compares it)");
	code = v.why == NULL ? REPORT_GOOD : v.payload == NULL ? REPORT_UNREADABLE : REPORT_CHANGED;
	json_decref(v.payload);
	return code;
}

/* The server's own report is verified, too: a report that could not be verified later is of no
 * use. */
static int report_fetch(const struct report_fields *f, struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *j = NULL;
	struct envelope v = { 0 };
	char id[ID_MATCH_ID_MAX];
	struct target t;
	int done = 0;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0)
		return -1;
	target_init(&t, "/v1/report");
	if (f->session != NULL) {
		if (id_match_session(&a, f->session, id, e) < 0)
			return -1;
		id_match_target(&t, id, "report");
	}
	if (api_call_json(&a, "GET", &t, NULL, &j, e) < 0)
		return -1;
	envelope_read(j, f->key, &v);
	if (v.why != NULL)
		done = err_set(e, ERR_SYSTEM, "the server's report is not good: %s", v.why);
	else if (f->output != NULL)
		done = report_save(f->output, j, e);
	else if (f->common.json)
		show_json(j, false, stdout);
	else
		print_report(&v);
	json_decref(v.payload);
	return done;
}

/* Without words a report is asked for. "verify FILE" needs no server. */
static int report_run(int argc, char **argv)
{
	static struct report_fields f;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_report, argc, argv, &f, &words, 0, 2);

	if (code != ARGS_GO)
		return code;
	if (words.n == 2 && strcmp(words.at[0], "verify") == 0)
		return report_verify(&f, words.at[1]);
	if (words.n > 0)
		return args_wrong(
			&verb_report,
			"%.40s: not understood (--session ID for a session, or verify FILE)",
			words.at[0]);
	return report_fetch(&f, &e) < 0 ? args_refused(&verb_report, &e) : ARGS_OK;
}

const struct verb verb_report = {
	.name = "report",
	.usage = "[options] | verify [--key VKEY] FILE",
	.summary =
		"Prints a signed report: controls in force, versions, settings, keys, audit log.",
	.text = "Each control has how it was checked on that machine. --json and -o give the "
		"signed "
		"form (DSSE).\n"
		"verify exits with 0: good, 1: changed or of another key, 3: unreadable.\n",
	.examples = "cordon report -o report.json\n"
		    "cordon report --session ID\n"
		    "cordon report verify report.json\n",
	.options = options,
	.noptions = COUNT(options),
	.run = report_run,
};
