/* audit_cosign.c - see audit_cosign.h.
 *
 * cordond replaces the last checkpoint of a log every few seconds, and cordon-notary signs no
 * smaller size again. So the log's own line comes with the request, or from the checkpoint of that
 * size if it is still the last one, or the cosigned one. */
#include "daemon/audit/audit_cosign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_private.h"
#include "daemon/audit/audit_tree.h"

#define NAMES_MAX 1024

struct cosign {
	const struct tlog_note *given;
	const struct tlog_checkpoint *c;
	struct store_audit_log log;	/* released by audit_cosign() */
	struct store_audit_note before; /* the cosigned one. No log: there is none */
	struct tlog_note last, kept;	/* of log and before. No lines: there is none */
	struct buf text;		/* of the new one */
	unsigned own, witnesses;	/* its lines */
	char names[NAMES_MAX];		/* of the new witnesses */
	bool any_new;
};

static bool is_same_signer(const struct tlog_sig *a, const struct tlog_sig *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0 &&
	       memcmp(a->id, b->id, sizeof(a->id)) == 0;
}

static bool is_same_line(const struct tlog_sig *a, const struct tlog_sig *b)
{
	return a->line_len == b->line_len && memcmp(a->line, b->line, a->line_len) == 0;
}

static const struct tlog_sig *find_signer(const struct tlog_note *n, const struct tlog_sig *s)
{
	for (unsigned i = 0; i < n->nsigs; i++)
		if (is_same_signer(&n->sigs[i], s))
			return &n->sigs[i];
	return NULL;
}

/* By the name of the node's key. */
static bool is_own(const struct audit *a, const struct tlog_sig *s)
{
	return s->name_len == strlen(a->name) && memcmp(s->name, a->name, s->name_len) == 0;
}

/* ---- the note */

/* The lines of a client: each signer once, and no others than witnesses and the log. */
static int check_lines(const struct audit *a, const struct tlog_note *n, struct err *e)
{
	unsigned witnesses = 0;

	for (unsigned i = 0; i < n->nsigs; i++) {
		const struct tlog_sig *s = &n->sigs[i];

		if (s->len != (is_own(a, s) ? TLOG_SIG : TLOG_COSIG))
			return err_set(e, ERR_INVALID,
				       "a signature line that is no cosignature/v1 of a witness");
		for (unsigned j = 0; j < i; j++)
			if (is_same_signer(&n->sigs[j], s))
				return err_set(e, ERR_INVALID, "two signature lines of one key");
		witnesses += !is_own(a, s);
	}
	return witnesses > 0 ? 0 : err_set(e, ERR_INVALID, "there is no line of a witness");
}

/* The log whose origin the checkpoint has. */
static int find_log(struct audit *a, const char *tenant, struct cosign *s, struct err *e)
{
	const char *slash = strrchr(s->c->origin, '/');
	uint64_t epoch = slash == NULL ? 0 : strtoull(slash + 1, NULL, 10);
	char origin[TLOG_NAME_MAX] = "";

	if (epoch > 0 && epoch <= UINT32_MAX &&
	    store_audit_log_get(a->store, tenant, epoch, &s->log, e) == 0)
		audit_origin(a, &s->log, origin);
	else if (epoch > 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (strcmp(origin, s->c->origin) != 0)
		return err_set(e, ERR_NOT_FOUND, "the checkpoint is of another log");
	return 0;
}

static int check_root(struct audit *a, const struct cosign *s, struct err *e)
{
	struct tlog_hash root;

	if (s->c->size == 0 || s->c->size > s->log.note_size)
		return err_set(e, ERR_INVALID, "the log has signed no checkpoint of that size");
	if (audit_tree_root(a->store, s->log.id, s->c->size, &root, e) < 0)
		return -1;
	if (!tlog_hash_equal(&root, &s->c->root))
		return err_set(e, ERR_CONFLICT, "the log has another root at that size");
	return 0;
}

static int read_kept(struct audit *a, struct cosign *s, struct err *e)
{
	if (s->log.note_size == s->c->size &&
	    tlog_note_split(s->log.note, strlen(s->log.note), &s->last, e) < 0)
		return -1;
	if (store_audit_note_cosigned(a->store, s->log.id, &s->before, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (s->before.size > s->c->size)
		return err_set(e, ERR_CONFLICT,
			       "a later checkpoint is cosigned already, of %llu records",
			       (unsigned long long)s->before.size);
	if (s->before.size == s->c->size)
		return tlog_note_split(s->before.note, strlen(s->before.note), &s->kept, e);
	return 0;
}

/* ---- the lines of the new checkpoint */

static void audit_cosign_put(struct cosign *s, const struct tlog_sig *line, bool own)
{
	buf_put(&s->text, line->line, line->line_len);
	if (own)
		s->own++;
	else
		s->witnesses++;
}

/* A line of the client counts if one of the log's keys has made it. */
static bool is_verified(const struct audit *a, const struct cosign *s, const struct tlog_sig *line,
			tlog_verify_fn *verify)
{
	const char *const keys[] = { s->log.vkey, s->log.named, a->vkey, a->former };
	struct tlog_vkey k;
	struct err e;

	for (size_t i = 0; i < COUNT(keys); i++)
		if (tlog_vkey_parse(keys[i], strlen(keys[i]), &k, &e) == 0 &&
		    memcmp(k.id, line->id, sizeof(k.id)) == 0 &&
		    verify(NULL, k.key, s->given->text, s->given->text_len, line->bytes))
			return true;
	return false;
}

static int put_own(const struct audit *a, struct cosign *s, tlog_verify_fn *verify, struct err *e)
{
	const struct tlog_note *n = s->last.nsigs > 0 ? &s->last : &s->kept;

	for (unsigned i = 0; i < n->nsigs; i++)
		if (is_own(a, &n->sigs[i]))
			audit_cosign_put(s, &n->sigs[i], true);
	for (unsigned i = 0; i < s->given->nsigs && n->nsigs == 0; i++)
		if (is_own(a, &s->given->sigs[i]) && is_verified(a, s, &s->given->sigs[i], verify))
			audit_cosign_put(s, &s->given->sigs[i], true);
	if (s->own == 0)
		return err_set(e, ERR_INVALID,
			       "the checkpoint is not the last one any more, and has no good "
			       "signature of the log");
	return 0;
}

static void put_witnesses(const struct audit *a, struct cosign *s)
{
	size_t n = 0;

	for (unsigned i = 0; i < s->kept.nsigs; i++)
		if (!is_own(a, &s->kept.sigs[i]) && find_signer(s->given, &s->kept.sigs[i]) == NULL)
			audit_cosign_put(s, &s->kept.sigs[i], false);
	for (unsigned i = 0; i < s->given->nsigs; i++) {
		const struct tlog_sig *line = &s->given->sigs[i];
		const struct tlog_sig *known = find_signer(&s->kept, line);

		if (is_own(a, line))
			continue;
		audit_cosign_put(s, line, false);
		if (known != NULL && is_same_line(known, line))
			continue;
		s->any_new = true;
		if (n + line->name_len + 2 < sizeof(s->names))
			n += (size_t)snprintf(s->names + n, sizeof(s->names) - n, "%s%.*s",
					      n > 0 ? " " : "", (int)line->name_len, line->name);
	}
}

static int audit_cosign_compose(struct audit *a, struct cosign *s, tlog_verify_fn *verify,
				struct err *e)
{
	buf_put(&s->text, s->given->text, s->given->text_len);
	buf_put_text(&s->text, "\n");
	if (put_own(a, s, verify, e) < 0)
		return -1;
	put_witnesses(a, s);
	if (s->own + s->witnesses > TLOG_SIGS_MAX)
		return err_set(e, ERR_LIMIT, "a checkpoint has at most %d signatures",
			       TLOG_SIGS_MAX);
	buf_put(&s->text, "", 1);
	return buf_check(&s->text, e);
}

static int audit_cosign_keep(struct audit *a, const struct cosign *s, const struct store_actor *who,
			     struct err *e)
{
	const struct audit_record record = { .tenant = s->log.tenant,
					     .type = "audit.cosigned",
					     .actor = who };
	const struct store_audit_note row = { .log = s->log.id,
					      .size = s->c->size,
					      .kind = STORE_AUDIT_KEPT_COSIGNED,
					      .note = (const char *)s->text.data };

	if (store_begin(a->store, e) < 0)
		return -1;
	if (audit_append(a, &record, e, "records\t%llu\nwitnesses\t%s\n",
			 (unsigned long long)s->c->size, s->names) == 0 &&
	    store_audit_note_put(a->store, &row, e) == 0 && store_commit(a->store, e) == 0)
		return 0;
	store_rollback(a->store);
	return -1;
}

int audit_cosign(struct audit *a, const char *tenant, const char *note, size_t len,
		 const struct store_actor *who, tlog_verify_fn *verify, struct tlog_checkpoint *ret,
		 unsigned *ret_lines, struct err *e)
{
	struct tlog_note given;
	struct cosign s = { .given = &given, .c = ret };
	int done;

	if (tlog_note_split(note, len, &given, e) < 0 ||
	    tlog_checkpoint_parse(given.text, given.text_len, ret, e) < 0 ||
	    check_lines(a, &given, e) < 0)
		return -1;
	buf_init(&s.text, STORE_AUDIT_NOTE_MAX);
	done = find_log(a, tenant, &s, e);
	if (done == 0)
		done = check_root(a, &s, e);
	if (done == 0)
		done = read_kept(a, &s, e);
	if (done == 0)
		done = audit_cosign_compose(a, &s, verify, e);
	/* The same lines once more are nothing new: the answer was lost. */
	if (done == 0 && s.any_new)
		done = audit_cosign_keep(a, &s, who, e);
	*ret_lines = s.witnesses;
	buf_release(&s.text);
	store_audit_note_release(&s.before);
	store_audit_log_release(&s.log);
	return done;
}
