/* audit_verify.c - see audit_verify.h. on_line() gets one line after the other and calls the
 * function for its kind. A function returns false when the verdict is final, and
 * audit_verify_decide() keeps the first one.
 *
 * Two sets of keys run side by side. A checkpoint makes records verified only with a trusted
 * key. The keys that the log itself names explain checkpoints from before. */
#include "cmd/client/audit_verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/audit_key.h"
#include "lib/base/base64.h"
#include "lib/tlog/tlog_tile.h"

#define HEARTBEATS_MS 1800000 /* two, of 15 minutes */
#define TILE_BYTES ((size_t)TLOG_TILE * TLOG_HASH)

/* One verification. The lines come in order: the head, tiles for deleted records, records, and
 * checkpoints between them. Each line moves the state, and the first fault ends it (over).
 * Nothing stays from a line but hashes, keys and counts, so a log with any number of records
 * needs the same memory. */
struct audit_verify {
	const struct audit_verify_rules *rules;
	struct audit_found found;
	bool over, has_head, is_node;
	uint64_t size; /* that the head promises */
	struct tlog_range tree;
	/* The given key and those after it, and the one that the log names first and those after
	 * it. Without a given key both are the same. */
	struct audit_verify_keys {
		size_t n, taken; /* of new_keys */
		struct tlog_vkey keys[AUDIT_KEYS_MAX];
	} trusted, named;
	/* Keys that records name. is_stated: the former key, which the record names, too, has
	 * signed that. Only cordon-notary can have a key do so: a record alone proves nothing,
	 * since a cordond that was taken over can write any. trusted and named each walk over
	 * this list with `taken`. */
	struct new_key {
		uint64_t seq; /* of the record */
		bool is_key, is_stated;
		struct tlog_vkey key, former;
	} new_keys[AUDIT_KEYS_MAX];
	size_t nnew_keys, nchecked;
	struct tlog_checkpoint since;
	bool since_met;
	uint64_t pruned_told; /* records below it were pruned, a record says */
	bool is_unsigned;     /* the last checkpoint is not by a trusted key, but by a named one */
	bool is_witnessed;
	size_t most; /* witnesses of a checkpoint, at most */
	bool has_last;
	int64_t last_ms;
	size_t len; /* of the line so far */
	char line[AUDIT_LINE_MAX];
};

/* ---- the end: the first reason counts */

static PRINTF(3, 4) bool audit_verify_decide(struct audit_verify *v, enum audit_verdict verdict,
					     const char *fmt, ...)
{
	va_list args;

	if (v->over)
		return false;
	va_start(args, fmt);
	(void)vsnprintf(v->found.why, sizeof(v->found.why), fmt, args);
	va_end(args);
	v->found.verdict = verdict;
	v->over = true;
	return false;
}

/* seq: the first record that cannot be believed. */
static bool audit_verify_changed(struct audit_verify *v, uint64_t seq, const char *why)
{
	if (!v->over) {
		v->found.has_first_bad = true;
		v->found.first_bad = seq;
	}
	return audit_verify_decide(v, AUDIT_CHANGED, "%s", why);
}

/* The form is wrong, so nothing can be said about the records. */
static bool audit_verify_unreadable(struct audit_verify *v, const char *why)
{
	return audit_verify_decide(v, AUDIT_UNREADABLE, "%s", why);
}

/* ---- signatures */

/* By one of the keys, and by none wrongly. A note may have signatures by several keys, also by
 * unknown ones, which do not count. TLOG_BAD: a known key's signature does not fit the text. */
static enum tlog_verdict audit_verify_judge(const struct audit_verify_keys *k,
					    const struct tlog_note *n)
{
	enum tlog_verdict all = TLOG_UNSIGNED;

	for (size_t i = 0; i < k->n; i++) {
		enum tlog_verdict one =
			tlog_note_verify(n, &k->keys[i], audit_key_holds, NULL, NULL);

		if (one == TLOG_BAD)
			return TLOG_BAD;
		if (one == TLOG_GOOD)
			all = TLOG_GOOD;
	}
	return all;
}

/* The name is compared as well: a key under another name signs for another log. */
static bool is_same_key(const struct tlog_vkey *a, const struct tlog_vkey *b)
{
	return a->type == b->type && memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
	       strcmp(a->name, b->name) == 0;
}

static bool has_key(const struct audit_verify_keys *in, const struct tlog_vkey *k)
{
	for (size_t i = 0; i < in->n; i++)
		if (is_same_key(&in->keys[i], k))
			return true;
	return false;
}

/* The user named the key on the command line, so it needs no other key to speak for it. */
static bool is_given(const struct audit_verify_rules *r, const struct tlog_vkey *k)
{
	for (size_t i = 0; i < r->nkeys; i++)
		if (is_same_key(&r->keys[i], k))
			return true;
	return false;
}

/* Keys that a believed key has named are believed from then on. */
static void take_new_keys(const struct audit_verify *v, struct audit_verify_keys *to)
{
	for (; to->taken < v->nnew_keys; to->taken++) {
		const struct new_key *n = &v->new_keys[to->taken];

		if (n->is_stated && has_key(to, &n->former) && !has_key(to, &n->key) &&
		    to->n < AUDIT_KEYS_MAX)
			to->keys[to->n++] = n->key;
	}
}

/* Without the statement of a former key a new one counts only if the user has it from elsewhere. Of
 * an export that begins behind a change, the former key may not be known. */
static bool is_vouched_for(const struct audit_verify *v, const struct new_key *n)
{
	if (is_given(v->rules, &n->key))
		return true;
	return n->is_stated &&
	       (has_key(&v->trusted, &n->former) || has_key(&v->named, &n->former) ||
		has_key(&v->trusted, &n->key) || has_key(&v->named, &n->key));
}

/* The record is the first one that cannot be believed, or the one behind the last checkpoint. */
static bool not_vouched_for(struct audit_verify *v, const struct new_key *n, uint64_t seq)
{
	char vkey[TLOG_VKEY_MAX], why[sizeof(v->found.why)];

	tlog_vkey_format(&n->key, vkey);
	(void)snprintf(why, sizeof(why),
		       "record %llu names the new key %s, and no known key has signed that: "
		       "it may be made up, or the folder of cordon-notary was "
		       "replaced. If you know that the key is right, give it with --key",
		       (unsigned long long)n->seq, vkey);
	return audit_verify_changed(v, seq, why);
}

/* Each new key must be vouched for before later checkpoints count. A record without a readable
 * key cannot be a genuine one, because cordond always writes it. */
static bool check_new_keys(struct audit_verify *v)
{
	for (; v->nchecked < v->nnew_keys; v->nchecked++) {
		const struct new_key *n = &v->new_keys[v->nchecked];

		if (!n->is_key)
			return audit_verify_changed(v, n->seq,
						    "a record of a new key without a key");
		if (!is_vouched_for(v, n))
			return not_vouched_for(v, n, n->seq);
	}
	return true;
}

/* A checkpoint by no believed key: most likely by one that a record names. */
static bool not_signed(struct audit_verify *v)
{
	for (size_t i = 0; i < v->nnew_keys; i++) {
		const struct new_key *n = &v->new_keys[i];

		if (n->is_key && !is_vouched_for(v, n))
			return not_vouched_for(v, n, v->found.verified);
	}
	return audit_verify_changed(v, v->found.verified,
				    "a checkpoint that is not signed by the key");
}

/* Count the witnesses of a checkpoint of that size. */
static bool count_witnesses(struct audit_verify *v, const struct tlog_note *n, uint64_t size)
{
	size_t cosigned = 0;

	for (size_t i = 0; i < v->rules->nwitnesses; i++) {
		enum tlog_verdict one =
			tlog_note_verify(n, &v->rules->witnesses[i], audit_key_holds, NULL, NULL);

		if (one == TLOG_BAD)
			return audit_verify_changed(v, v->found.verified, "a wrong cosignature");
		cosigned += one == TLOG_GOOD;
	}
	v->found.cosignatures += cosigned;
	v->most = cosigned > v->most ? cosigned : v->most;
	if (cosigned >= v->rules->quorum) {
		v->is_witnessed = true;
		v->found.witnessed = size;
	}
	return true;
}

/* ---- the tree */

/* Called after each record. When the tree has the size of the earlier checkpoint, its root must
 * be that checkpoint's root: otherwise an older part of the log was rewritten. */
static bool meet_since(struct audit_verify *v)
{
	struct tlog_hash root;

	if (v->rules->since == NULL || v->tree.size != v->since.size)
		return true;
	v->since_met = true;
	tlog_range_root(&v->tree, &root);
	if (!tlog_hash_equal(&root, &v->since.root))
		return audit_verify_changed(v, v->found.verified,
					    "the log does not extend the checkpoint of --since");
	return count_witnesses(v, v->rules->since, v->since.size);
}

/* Every leaf goes through here, whether it comes from a record or from a tile. */
static bool client_audit_verify_add(struct audit_verify *v, const struct tlog_hash *leaf)
{
	if (!tlog_range_add(&v->tree, 0, leaf))
		return audit_verify_unreadable(v, "a log of too many records");
	return meet_since(v);
}

/* ---- lines */

/* The checkpoint of --since must be good in itself before the log is compared with it. A fault
 * in it is a fault of the input, not of the log. */
static bool take_since(struct audit_verify *v)
{
	const struct tlog_note *n = v->rules->since;
	struct err e;

	if (n == NULL)
		return true;
	if (tlog_checkpoint_parse(n->text, n->text_len, &v->since, &e) < 0)
		return audit_verify_unreadable(v, "the file of --since has no checkpoint");
	if (strcmp(v->since.origin, v->found.origin) != 0)
		return audit_verify_unreadable(v, "the checkpoint of --since is of another log");
	if (audit_verify_judge(&v->trusted, n) != TLOG_GOOD)
		return audit_verify_unreadable(
			v, "the checkpoint of --since is not signed by the key");
	return meet_since(v);
}

/* The first line names the log and its key. Without --key that key is believed, and print_text()
 * of audit_check.c says so. The heartbeat rule holds for the log of the node only, because a
 * tenant without sessions writes no records. */
static bool on_head(struct audit_verify *v, const struct audit_line *l)
{
	const char *slash;
	struct tlog_vkey named;
	struct err e;

	if (l->kind != AUDIT_LINE_HEAD || tlog_vkey_parse(l->vkey.p, l->vkey.n, &named, &e) < 0 ||
	    named.type != TLOG_KEY_ED25519 || !tlog_name_is_valid(l->origin.p, l->origin.n) ||
	    l->first > TLOG_SIZE_MAX || l->size > TLOG_SIZE_MAX)
		return audit_verify_unreadable(v, "the first line is not that of an export");
	v->has_head = true;
	v->size = l->size;
	memcpy(v->found.origin, l->origin.p, l->origin.n);
	slash = strchr(v->found.origin, '/');
	v->is_node =
		slash != NULL && (strncmp(slash, "/node/", 6) == 0 || strcmp(slash, "/node") == 0);
	v->named.keys[v->named.n++] = named;
	for (size_t i = 0; i < v->rules->nkeys; i++)
		v->trusted.keys[v->trusted.n++] = v->rules->keys[i];
	if (v->trusted.n == 0)
		v->trusted.keys[v->trusted.n++] = named;
	return take_since(v);
}

/* TLOG_TILE hashes of records that the retention deleted. They come first, and whole tiles only.
 * Whether the deletion was announced is checked at the end. */
static bool on_tile(struct audit_verify *v, const struct audit_line *l)
{
	uint8_t bytes[BASE64_BYTES(BASE64_LENGTH(TILE_BYTES))];
	struct tlog_hash hash;

	if (l->text.n != BASE64_LENGTH(TILE_BYTES) ||
	    base64_decode(l->text.p, l->text.n, bytes) != (ssize_t)TILE_BYTES)
		return audit_verify_unreadable(v, "a malformed tile");
	if (v->tree.size % TLOG_TILE != 0 || l->index != v->tree.size / TLOG_TILE)
		return audit_verify_changed(v, v->tree.size, "a tile out of its place");
	for (size_t i = 0; i < TLOG_TILE; i++) {
		memcpy(hash.bytes, bytes + i * TLOG_HASH, TLOG_HASH);
		if (!client_audit_verify_add(v, &hash))
			return false;
	}
	v->found.pruned = v->tree.size;
	v->has_last = false;
	return true;
}

/* ---- records
 *
 * Rules for one record: its number is its place, its values fit its commitments. Its time is
 * only counted. Then its hash joins the tree. A lie in its text shows at the next checkpoint. */

/* The commitment of a value beside the record. */
static void audit_verify_commit(const struct audit_value *value, uint8_t ret[32])
{
	static const char label[] = "cordon-field"; /* with its NUL */
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, label, sizeof(label));
	sha256_add(&s, value->salt, sizeof(value->salt));
	sha256_add(&s, value->name.p, value->name.n);
	sha256_add(&s, "", 1);
	sha256_add(&s, value->value.p, value->value.n);
	sha256_end(&s, ret);
}

/* Comparison by bytes. Names are short, so no hash table is needed. */
static bool is_same(struct audit_text a, struct audit_text b)
{
	return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* Compare with a text of this program. */
static bool is_text(struct audit_text a, const char *text)
{
	return a.n == strlen(text) && memcmp(a.p, text, a.n) == 0;
}

/* False: no field of that name is sealed. */
static bool find_seal(struct audit_text sealed, struct audit_text wanted, uint8_t ret[32])
{
	struct audit_text name;

	while (audit_record_seal(&sealed, &name, ret))
		if (is_same(name, wanted))
			return true;
	return false;
}

/* Whether no sealed field comes twice. */
static bool seals_differ(struct audit_text sealed, size_t *ret_n)
{
	struct audit_text name;
	uint8_t hash[32];

	*ret_n = 0;
	for (struct audit_text rest = sealed; audit_record_seal(&rest, &name, hash); (*ret_n)++)
		if (find_seal(rest, name, hash))
			return false;
	return true;
}

/* Whether no value comes twice, and there are not too many. */
static bool values_differ(struct audit_text side)
{
	struct audit_text names[AUDIT_VALUES_MAX];
	struct audit_value value;
	size_t n = 0;

	for (; audit_line_side(&side, &value); names[n++] = value.name) {
		if (n == AUDIT_VALUES_MAX)
			return false;
		for (size_t i = 0; i < n; i++)
			if (is_same(names[i], value.name))
				return false;
	}
	return true;
}

/* Every value beside the record must have a commitment in it. A commitment without a value is an
 * erased one, which is legal and counted. */
static bool check_sealed(struct audit_verify *v, const struct audit_line *l)
{
	struct audit_text sealed = audit_record_sealed(l->text), side = l->side;
	struct audit_value value;
	uint8_t want[32], got[32];
	size_t nsealed, nvalues = 0;

	if (!seals_differ(sealed, &nsealed))
		return audit_verify_changed(v, l->index, "not the record of that number");
	for (; audit_line_side(&side, &value); nvalues++) {
		audit_verify_commit(&value, got);
		if (!find_seal(sealed, value.name, want) || memcmp(want, got, sizeof(got)) != 0)
			return audit_verify_changed(v, l->index,
						    "a value is not the one that was recorded");
	}
	v->found.erased += nsealed - nvalues;
	return true;
}

/* Times are those of the writer, so an oddity is counted and no fault: clocks are set back, and
 * machines are off. Holes are counted for the node's log only, which has a record for each
 * heartbeat. */
static void check_time(struct audit_verify *v, int64_t ms)
{
	if (v->has_last && ms < v->last_ms)
		v->found.backwards++;
	if (v->has_last && v->is_node && ms - v->last_ms > HEARTBEATS_MS)
		v->found.holes++;
	v->has_last = true;
	v->last_ms = ms;
}

/* Only Ed25519 keys can sign a log. */
static bool read_key(struct audit_text text, struct tlog_vkey *ret)
{
	struct err e;

	return text.n > 0 && tlog_vkey_parse(text.p, text.n, ret, &e) == 0 &&
	       ret->type == TLOG_KEY_ED25519;
}

/* The proof is a signature of the former key over a text that names the new one. Without a valid
 * proof the key is kept as merely named. */
static void read_new_key(const struct audit_new_key *from, struct new_key *ret)
{
	uint8_t proof[BASE64_BYTES(BASE64_LENGTH(TLOG_SIG))];
	char vkey[TLOG_VKEY_MAX], text[TLOG_CHECKPOINT_MAX];

	ret->is_key = read_key(from->vkey, &ret->key);
	ret->is_stated = false;
	if (!ret->is_key || !read_key(from->former, &ret->former) ||
	    from->proof.n != BASE64_LENGTH(TLOG_SIG) ||
	    base64_decode(from->proof.p, from->proof.n, proof) != TLOG_SIG)
		return;
	tlog_vkey_format(&ret->key, vkey);
	ret->is_stated =
		audit_key_holds(NULL, ret->former.key, text, tlog_next_key_text(vkey, text), proof);
}

/* Statements of a record about the log itself. */
static void take_statement(struct audit_verify *v, const struct audit_line *l,
			   struct audit_text type)
{
	struct audit_new_key key;
	uint64_t from, to;

	if (is_text(type, "audit.key") && v->nnew_keys < AUDIT_KEYS_MAX &&
	    audit_record_new_key(l->text, &key)) {
		struct new_key *n = &v->new_keys[v->nnew_keys++];

		n->seq = l->index;
		read_new_key(&key, n);
	}
	if (is_text(type, "audit.pruned") && audit_record_pruned(l->text, &from, &to) &&
	    from <= v->pruned_told && to > v->pruned_told)
		v->pruned_told = to;
}

/* The order of the checks decides which fault is reported. The hash is taken over the bytes as
 * they were sent. */
static bool on_leaf(struct audit_verify *v, const struct audit_line *l)
{
	struct audit_record_head head;
	struct tlog_hash hash;

	if (!values_differ(l->side))
		return audit_verify_unreadable(
			v, "a value of a record comes twice, or there are too many");
	if (l->index != v->tree.size)
		return audit_verify_changed(v, v->tree.size, "another record is in its place");
	if (!audit_record_read(l->text, &head) || head.seq != l->index)
		return audit_verify_changed(v, l->index, "not the record of that number");
	if (!check_sealed(v, l))
		return false;
	check_time(v, head.time_ms);
	take_statement(v, l, head.type);
	tlog_leaf(l->text.p, l->text.n, &hash);
	if (!client_audit_verify_add(v, &hash))
		return false;
	v->found.records++;
	return true;
}

/* ---- checkpoints
 *
 * A checkpoint signs the root over all records before it. Only here records become verified, and
 * only here a new key can become trusted. */

/* The place of a checkpoint is behind the last record that it signs. A larger one means that
 * records were taken out, a smaller one that lines were moved. */
static bool check_root(struct audit_verify *v, const struct tlog_checkpoint *c)
{
	struct tlog_hash root;

	if (c->size > v->tree.size)
		return audit_verify_decide(v, AUDIT_INCOMPLETE, "records %llu to %llu are missing",
					   (unsigned long long)v->tree.size,
					   (unsigned long long)c->size - 1);
	if (c->size < v->tree.size)
		return audit_verify_changed(v, c->size, "a checkpoint out of its place");
	tlog_range_root(&v->tree, &root);
	if (!tlog_hash_equal(&root, &c->root))
		return audit_verify_changed(v, v->found.verified,
					    "the records are not those that were signed");
	return true;
}

/* In order: form, name of the log, signature, root, witnesses. A checkpoint that only the named
 * key signed keeps the export alive, but proves nothing until a trusted key signs again. */
static bool on_checkpoint(struct audit_verify *v, const struct audit_line *l)
{
	uint64_t before = v->found.verified;
	struct tlog_checkpoint c;
	enum tlog_verdict trusted, named;
	struct tlog_note n;
	struct err e;

	if (tlog_note_split(l->text.p, l->text.n, &n, &e) < 0 ||
	    tlog_checkpoint_parse(n.text, n.text_len, &c, &e) < 0)
		return audit_verify_changed(v, before, e.msg);
	if (strcmp(c.origin, v->found.origin) != 0)
		return audit_verify_changed(v, before, "a checkpoint of another log");
	trusted = audit_verify_judge(&v->trusted, &n);
	named = audit_verify_judge(&v->named, &n);
	if (trusted == TLOG_BAD || named == TLOG_BAD)
		return audit_verify_changed(v, before, "a wrong signature");
	if (trusted != TLOG_GOOD && named != TLOG_GOOD)
		return not_signed(v);
	if (!check_root(v, &c) || !count_witnesses(v, &n, c.size))
		return false;
	/* By a key from before the trusted one: a trusted one must follow. */
	v->is_unsigned = trusted != TLOG_GOOD;
	if (!v->is_unsigned) {
		v->found.verified = c.size;
		v->found.checkpoints++;
		v->found.has_time = v->has_last;
		v->found.last_ms = v->last_ms;
		take_new_keys(v, &v->trusted);
	}
	if (named == TLOG_GOOD)
		take_new_keys(v, &v->named);
	return v->is_unsigned || check_new_keys(v);
}

/* ---- the bytes
 *
 * Lines are put together from pieces of any length. The buffer has room for the longest legal
 * line, so a line without an end cannot grow without bound. */

/* A line of an unknown form is no change of a record, so the verdict is "unreadable" and names
 * no record. */
static bool on_line(struct audit_verify *v)
{
	struct audit_line l;

	if (!audit_line_read(v->line, v->len, &l))
		return audit_verify_unreadable(
			v, v->has_head ? "a line of no known form"
				       : "the first line is not that of an export");
	if (!v->has_head)
		return on_head(v, &l);
	switch (l.kind) {
	case AUDIT_LINE_LEAF:
		return on_leaf(v, &l);
	case AUDIT_LINE_CHECKPOINT:
		return on_checkpoint(v, &l);
	case AUDIT_LINE_TILE:
		return on_tile(v, &l);
	case AUDIT_LINE_HEAD:
		break;
	}
	return audit_verify_unreadable(v, "a line of no known form");
}

/* `line` is left as it is: zeroing a MiB serves nothing. */
struct audit_verify *audit_verify_new(const struct audit_verify_rules *rules)
{
	struct audit_verify *v = malloc(sizeof(*v));

	if (v == NULL)
		return NULL;
	memset(v, 0, offsetof(struct audit_verify, line));
	v->rules = rules;
	return v;
}

void audit_verify_free(struct audit_verify *v)
{
	free(v);
}

bool audit_verify_add(struct audit_verify *v, const void *bytes, size_t len)
{
	const char *p = bytes, *stop = p + len;

	while (p < stop && !v->over) {
		const char *newline = memchr(p, '\n', (size_t)(stop - p));
		size_t n = (size_t)((newline == NULL ? stop : newline) - p);

		/* The longest line has its newline inside of the bound. */
		if (n >= AUDIT_LINE_MAX - v->len) {
			(void)audit_verify_unreadable(v, "a line is too long");
			break;
		}
		memcpy(v->line + v->len, p, n);
		v->len += n;
		p += n;
		if (newline == NULL)
			break;
		(void)on_line(v);
		v->len = 0;
		p++;
	}
	return !v->over;
}

/* All records were read. Faults that show only at the end, in order: no head, half a line, an
 * untrusted last checkpoint, missing records, an unmet --since, records without a checkpoint, an
 * unannounced deletion, too few witnesses. */
const struct audit_found *audit_verify_end(struct audit_verify *v)
{
	uint64_t size = v->tree.size;

	if (!v->has_head)
		(void)audit_verify_unreadable(v, "there is no export");
	else if (v->len > 0)
		(void)audit_verify_decide(v, AUDIT_INCOMPLETE, "the last line is cut off");
	else if (v->is_unsigned)
		(void)not_signed(v);
	else if (size < v->size)
		(void)audit_verify_decide(v, AUDIT_INCOMPLETE, "records %llu to %llu are missing",
					  (unsigned long long)size,
					  (unsigned long long)v->size - 1);
	else if (v->rules->since != NULL && !v->since_met)
		(void)audit_verify_decide(v, AUDIT_INCOMPLETE,
					  "the log is shorter than the checkpoint of --since");
	else if (v->found.checkpoints == 0 || v->found.verified < size)
		(void)audit_verify_decide(v, AUDIT_INCOMPLETE,
					  "no checkpoint has the records from %llu on",
					  (unsigned long long)v->found.verified);
	else if (v->pruned_told < v->found.pruned)
		(void)audit_verify_decide(
			v, AUDIT_INCOMPLETE,
			"records are missing, and no record says that they were pruned");
	else if (!v->is_witnessed)
		(void)audit_verify_decide(v, AUDIT_INCOMPLETE,
					  "%zu of %zu witnesses have signed a checkpoint", v->most,
					  v->rules->quorum);
	v->over = true;
	return &v->found;
}
