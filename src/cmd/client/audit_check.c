/* audit_check.c - see audit_check.h. The rules come from the command line, the log from a file
 * or from the server. audit_verify.c judges it while it is read. This file reads the rules,
 * feeds the verifier and prints its findings.
 *
 * The exit status is the verdict. It is printed also where the log could not be read to its end. */
#include "cmd/client/audit_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/audit_verify.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "lib/base/io.h"
#include "lib/base/own.h"

/* ---- the rules: keys, witnesses and an earlier checkpoint, all given on the command line. They
 * come from outside the log and the server, so a log that agrees with them was not replaced as a
 * whole. */
#define READ_BYTES (256U << 10)

/* The rules, and the memory that they point to. */
struct inputs {
	struct audit_verify_rules rules;
	struct tlog_note since;
	char since_text[TLOG_NOTE_MAX + 2];
};

/* The error names the option, because several of them take keys. */
static int read_key(const char *option, const char *text, struct tlog_vkey *ret, struct err *e)
{
	if (tlog_vkey_parse(text, strlen(text), ret, e) < 0)
		return err_wrap(e, "--%s", option);
	return 0;
}

/* The text stays in `in`, because the note points into it. */
static int read_since(struct inputs *in, const char *path, struct err *e)
{
	struct tlog_checkpoint c;
	ssize_t n = io_read_file(AT_FDCWD, path, in->since_text, sizeof(in->since_text), e);

	if (n < 0 || tlog_note_split(in->since_text, (size_t)n, &in->since, e) < 0 ||
	    tlog_checkpoint_parse(in->since.text, in->since.text_len, &c, e) < 0)
		return err_wrap(e, "--since");
	in->rules.since = &in->since;
	return 0;
}

/* Without --quorum every given witness must have signed. */
static int read_rules(const struct audit_verify_options *c, struct inputs *in, struct err *e)
{
	struct audit_verify_rules *r = &in->rules;
	char *end = NULL;

	if (c->witnesses->n > AUDIT_WITNESSES_MAX)
		return err_set(e, ERR_LIMIT, "--witness: at most %d", AUDIT_WITNESSES_MAX);
	for (size_t i = 0; i < c->witnesses->n; i++)
		if (read_key("witness", c->witnesses->items[i], &r->witnesses[r->nwitnesses++], e) <
		    0)
			return -1;
	r->quorum = r->nwitnesses;
	if (c->quorum != NULL) {
		r->quorum = strtoul(c->quorum, &end, 10);
		if (c->quorum[0] < '0' || c->quorum[0] > '9' || *end != '\0')
			return err_set(e, ERR_INVALID, "--quorum: a number of witnesses");
	}
	if (c->keys->n > AUDIT_GIVEN_MAX)
		return err_set(e, ERR_LIMIT, "--key: at most %d", AUDIT_GIVEN_MAX);
	for (size_t i = 0; i < c->keys->n; i++)
		if (read_key("key", c->keys->items[i], &r->keys[r->nkeys++], e) < 0)
			return -1;
	return c->since == NULL ? 0 : read_since(in, c->since, e);
}

/* ---- the log */

/* The log is read in pieces and never whole in memory. The loop ends early when the verdict is
 * known. */
static int from_file(struct audit_verify *v, const char *path, struct err *e)
{
	OWN_FD own = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	OWN_MEM char *bytes = malloc(READ_BYTES);
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : own;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "%s", path);
	if (bytes == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	do {
		n = read(fd, bytes, READ_BYTES);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "%s", path);
	} while (n < 0 || (n > 0 && audit_verify_add(v, bytes, (size_t)n)));
	return 0;
}

/* The verdict is known before the end of the log. */
static int on_data(void *arg, const void *data, size_t len, struct err *e)
{
	return audit_verify_add(arg, data, len) ? 0 : err_set(e, ERR_INVALID, "enough");
}

/* A request that fails is no verdict: the exit code is then one of args.h. */
static int from_server(struct audit_verify *v, const struct verb *verb, const struct args_common *o,
		       const char *tenant)
{
	struct client_request r = { .method = "GET" };
	OWN_API_CALL a = { 0 };
	struct target t;
	struct err e;

	target_init(&t, "/v1/audit");
	target_query(&t, "proofs", "true");
	target_query(&t, "tenant", tenant);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0 || api_call_send(&a, &r, &t, &e) < 0)
		return args_refused(verb, &e);
	/* A log cut short is not complete: the verifier says so. */
	IGNORED(client_read_each(a.client, on_data, v, &e), "the verifier has what came");
	return ARGS_GO;
}

/* ---- the verdict */

/* In the order of enum audit_verdict, which is also the exit status. */
static const char *word_of(enum audit_verdict v)
{
	static const char *const words[] = { "good", "changed", "incomplete", "unreadable" };

	return words[v];
}

/* How old the last checkpoint is. A clock behind the server's makes it 0 and not negative. */
static int64_t age_of(const struct audit_found *f)
{
	int64_t age = show_now_ms() - f->last_ms;

	return age < 0 ? 0 : age;
}

/* All counts, also those of 0, so that a program finds every member. first_bad and error appear
 * only if there are such. */
static void print_json(const struct audit_found *f)
{
	OWN_JSON *j =
		json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "verdict",
			  word_of(f->verdict), "exit", (int)f->verdict, "origin", f->origin,
			  "verified", (json_int_t)f->verified, "records", (json_int_t)f->records,
			  "pruned", (json_int_t)f->pruned, "checkpoints",
			  (json_int_t)f->checkpoints, "cosignatures", (json_int_t)f->cosignatures,
			  "witnessed", (json_int_t)f->witnessed, "holes", (json_int_t)f->holes,
			  "backwards", (json_int_t)f->backwards, "erased", (json_int_t)f->erased);

	if (j == NULL)
		return;
	if (f->has_first_bad)
		(void)json_object_set_new(j, "first_bad", json_integer((json_int_t)f->first_bad));
	if (f->verdict != AUDIT_GOOD)
		(void)json_object_set_new(j, "error", json_string(f->why));
	(void)json_object_set_new(j, "age_s",
				  f->has_time ? json_integer(age_of(f) / 1000) : json_null());
	show_json(j, true, stdout);
}

static void print_count(const char *what, uint64_t n)
{
	(void)printf("%-22s %llu\n", what, (unsigned long long)n);
}

/* The last line warns without --key: a log whose key was replaced verifies with the replaced
 * key. */
static void print_text(const struct audit_found *f, bool has_key)
{
	char age[32];

	(void)printf("%-22s ", "log");
	show_text(f->origin[0] == '\0' ? "-" : f->origin, stdout);
	(void)printf("\n%-22s %s", "verdict", word_of(f->verdict));
	if (f->verdict != AUDIT_GOOD)
		(void)printf(": ");
	show_text(f->verdict == AUDIT_GOOD ? "" : f->why, stdout);
	(void)putchar('\n');
	if (f->has_first_bad)
		print_count("first bad record", f->first_bad);
	print_count("verified", f->verified);
	print_count("records checked", f->records);
	if (f->pruned > 0)
		(void)printf("%-22s 0 to %llu\n", "pruned records",
			     (unsigned long long)f->pruned - 1);
	print_count("checkpoints verified", f->checkpoints);
	print_count("cosignatures", f->cosignatures);
	if (f->cosignatures > 0)
		print_count("witnessed", f->witnessed);
	print_count("holes in time", f->holes);
	print_count("times backwards", f->backwards);
	print_count("erased values", f->erased);
	show_span(f->has_time ? age_of(f) : -1, age, sizeof(age));
	(void)printf("%-22s %s\n", "last checkpoint's age", age);
	if (!has_key)
		(void)printf("The key is the one that the log itself names: give the one you kept "
			     "with --key.\n");
}

/* A rule that cannot be read is no verdict about the log, but it shares the exit status of an
 * unreadable one, so that no script takes it for good. */
int audit_check_run(const struct verb *verb, const struct args_common *o,
		    const struct audit_verify_options *c)
{
	static struct inputs in;
	struct audit_verify *v;
	const struct audit_found *f;
	struct err e;
	int code = ARGS_GO, verdict;

	if (read_rules(c, &in, &e) < 0) {
		(void)args_fail(&e);
		return AUDIT_UNREADABLE;
	}
	v = audit_verify_new(&in.rules);
	if (v == NULL)
		return ARGS_FAILED;
	if (c->file == NULL) {
		code = from_server(v, verb, o, c->tenant);
	} else if (from_file(v, c->file, &e) < 0) {
		(void)args_fail(&e);
		code = AUDIT_UNREADABLE;
	}
	if (code != ARGS_GO) {
		audit_verify_free(v);
		return code;
	}
	f = audit_verify_end(v);
	if (o->json)
		print_json(f);
	else
		print_text(f, c->keys->n > 0);
	verdict = (int)f->verdict;
	audit_verify_free(v);
	return verdict;
}
