/* audit_witness.c - see audit_witness.h. For each witness: build the consistency proof from
 * tiles of the server, post it with the checkpoint, check the cosignature, and give it to the
 * server.
 *
 * Neither side is trusted. A cosignature counts after its verification here, and the witness
 * verifies the proof itself. */
#include "cmd/client/audit_witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/audit_key.h"
#include "cmd/client/saved_file.h"
#include "lib/base/base64.h"
#include "lib/tlog/tlog_note.h"
#include "lib/tlog/tlog_tile.h"

#define WITNESS_CONNECT_MS 10000
#define WITNESS_IO_MS 30000
#define WITNESS_TRIES 4 /* another one may tell the witness of the log at the same time */
#define TILES_KEPT 8

/* The log at the server. Tiles are kept, because the proofs for several witnesses need the same
 * ones. */
struct audit_witness_source {
	struct api_call *a;
	const char *tenant;
	struct tlog_checkpoint c;
	char text[TLOG_CHECKPOINT_MAX];
	char own[2 * TLOG_SIG_LINE_MAX]; /* the log's signature lines */
	struct buf note;		 /* with the signatures that it has so far */
	bool is_saved;			 /* to a file, in the end */
	struct audit_witness_kept {
		unsigned level, width;
		uint64_t index;
		struct tlog_hash hashes[TLOG_TILE];
	} kept[TILES_KEPT];
	unsigned next;
};

/* ---- from the server */

/* GET one route of the log. The caller frees *ret. Both of its callers have a bound for the
 * answer. */
static int audit_witness_get(struct audit_witness_source *s, const char *path, const char *fresh,
			     size_t max, char **ret, size_t *ret_len, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct target t;

	target_init(&t, path);
	target_query(&t, "fresh", fresh);
	target_query(&t, "tenant", s->tenant);
	if (api_call_send(s->a, &r, &t, e) < 0)
		return -1;
	return client_read_all(s->a->client, max, ret, ret_len, e);
}

/* Fetch a new checkpoint and keep three parts: the text, which witnesses sign, the log's own
 * signature lines, and the whole note, to which cosignatures are added. */
static int get_checkpoint(struct audit_witness_source *s, struct err *e)
{
	OWN_MEM char *text = NULL;
	struct tlog_note n;
	size_t len = 0;

	if (audit_witness_get(s, "/v1/audit/checkpoint", "true", TLOG_NOTE_MAX, &text, &len, e) < 0)
		return -1;
	if (tlog_note_split(text, len, &n, e) < 0 ||
	    tlog_checkpoint_parse(n.text, n.text_len, &s->c, e) < 0 ||
	    n.text_len >= sizeof(s->text))
		return err_wrap(e, "the server's checkpoint");
	memcpy(s->text, n.text, n.text_len);
	for (unsigned i = 0, at = 0; i < n.nsigs && n.sigs[i].len == TLOG_SIG; i++) {
		if (at + n.sigs[i].line_len >= sizeof(s->own))
			break;
		memcpy(s->own + at, n.sigs[i].line, n.sigs[i].line_len);
		at += (unsigned)n.sigs[i].line_len;
	}
	return buf_add(&s->note, text, len, e);
}

/* A tlog_read_fn: one tile of hashes, from the kept ones or from the server. *ret is borrowed
 * until TILES_KEPT other tiles were read. */
static int on_tile(void *arg, unsigned level, uint64_t index, unsigned width,
		   const struct tlog_hash **ret, struct err *e)
{
	struct audit_witness_source *s = arg;
	const struct tlog_tile t = { .level = level, .index = index, .width = width };
	char path[sizeof("/v1/audit/") + TLOG_TILE_PATH_MAX] = "/v1/audit/";
	OWN_MEM char *bytes = NULL;
	struct audit_witness_kept *k;
	size_t len = 0;

	for (unsigned i = 0; i < TILES_KEPT; i++) {
		k = &s->kept[i];
		if (k->width == width && k->level == level && k->index == index) {
			*ret = k->hashes;
			return 0;
		}
	}
	(void)tlog_tile_path(&t, path + strlen(path));
	if (audit_witness_get(s, path, NULL, sizeof(k->hashes), &bytes, &len, e) < 0)
		return -1;
	if (len != width * sizeof(struct tlog_hash))
		return err_set(e, ERR_SYSTEM, "a tile of the server has %zu bytes, not %zu", len,
			       width * sizeof(struct tlog_hash));
	k = &s->kept[s->next++ % TILES_KEPT];
	k->level = level;
	k->index = index;
	k->width = width;
	memcpy(k->hashes, bytes, len);
	*ret = k->hashes;
	return 0;
}

/* ---- to a witness */

/* "old SIZE", the proof, an empty line, the checkpoint. */
static int audit_witness_compose(struct audit_witness_source *s, uint64_t old_size, struct buf *ret,
				 struct err *e)
{
	struct tlog_tiles tiles = { .size = s->c.size, .read = on_tile, .arg = s };
	struct tlog_proof proof;
	char hash[BASE64_LENGTH(TLOG_HASH) + 1];

	if (tlog_prove_consistency(old_size, s->c.size, tlog_tiles_node, &tiles, &proof, e) < 0)
		return -1;
	buf_printf(ret, "old %llu\n", (unsigned long long)old_size);
	for (unsigned i = 0; i < proof.n; i++) {
		base64_encode(proof.hashes[i].bytes, TLOG_HASH, hash);
		buf_printf(ret, "%s\n", hash);
	}
	buf_put_text(ret, "\n");
	buf_put(ret, s->note.data, s->note.len);
	return buf_check(ret, e);
}

/* The witness has seen the log at another size. */
static int read_size(const char *text, size_t len, uint64_t *ret, struct err *e)
{
	char *end;

	if (len < 2 || len > 20 || text[0] < '0' || text[0] > '9')
		return err_set(e, ERR_SYSTEM, "the witness answered 409 without a size");
	*ret = strtoull(text, &end, 10);
	if (*end != '\n' || end + 1 != text + len || *ret > TLOG_SIZE_MAX)
		return err_set(e, ERR_SYSTEM, "the witness answered 409 without a size");
	return 0;
}

/* 1: cosigned, its lines are in ret. 0: it has seen the log at *size. -1. The proof leads from
 * the size that the witness knows to ours, so the witness can check that nothing before was
 * changed. A first request assumes size 0. */
static int audit_witness_post(struct client *c, struct audit_witness_source *s, uint64_t *size,
			      struct buf *ret, struct err *e)
{
	struct buf body = BUF_INIT(TLOG_NOTE_MAX + 8192);
	struct client_request r = { .method = "POST", .target = "/add-checkpoint" };
	OWN_MEM char *text = NULL;
	size_t len = 0;
	int done = audit_witness_compose(s, *size, &body, e), status;

	r.body = body.data;
	r.body_len = body.len;
	r.type = "text/plain; charset=utf-8";
	if (done == 0)
		done = client_send(c, &r, e);
	buf_release(&body);
	if (done < 0 || client_read_all(c, TLOG_NOTE_MAX, &text, &len, e) < 0)
		return -1;
	status = client_status(c);
	if (status == 409)
		return read_size(text, len, size, e);
	if (status != 200)
		return err_set(e, ERR_SYSTEM, "the witness answered %d: %.*s", status,
			       (int)strcspn(text, "\r\n"), text);
	return buf_add(ret, text, len, e) < 0 ? -1 : 1;
}

/* The line of the key. Others are not kept: a wrong one would spoil the checkpoint for who has that
 * key. NULL: there is none, or there are several. */
static const struct tlog_sig *find_line(const struct tlog_note *n, const struct tlog_vkey *k)
{
	const struct tlog_sig *found = NULL;

	for (unsigned i = 0; i < n->nsigs; i++) {
		const struct tlog_sig *one = &n->sigs[i];

		if (one->name_len != strlen(k->name) ||
		    memcmp(one->name, k->name, one->name_len) != 0 ||
		    memcmp(one->id, k->id, sizeof(k->id)) != 0)
			continue;
		if (found != NULL)
			return NULL;
		found = one;
	}
	return found;
}

/* The signature is that of the key, over this checkpoint. lines: its line is left. */
static int check_lines(const struct audit_witness_source *s, const struct tlog_vkey *k,
		       struct buf *lines, struct err *e)
{
	const struct tlog_sig *own;
	struct buf whole = BUF_INIT(TLOG_NOTE_MAX);
	struct tlog_note n;
	int done;

	buf_put_text(&whole, s->text);
	buf_put_text(&whole, "\n");
	buf_put(&whole, lines->data, lines->len);
	done = buf_check(&whole, e);
	if (done == 0)
		done = tlog_note_split((const char *)whole.data, whole.len, &n, e);
	if (done == 0 && tlog_note_verify(&n, k, audit_key_holds, NULL, NULL) != TLOG_GOOD)
		done = err_set(e, ERR_DENIED, "the answer has no good signature of %s", k->name);
	own = done == 0 ? find_line(&n, k) : NULL;
	if (done == 0 && own == NULL)
		done = err_set(e, ERR_DENIED, "the answer has several signatures of %s", k->name);
	if (own != NULL) {
		buf_clear(lines);
		done = buf_add(lines, own->line, own->line_len, e);
	}
	buf_release(&whole);
	return done;
}

/* The cosignature goes to the server, behind the text that it signs and the log's signature: by now
 * the server may have a later checkpoint. */
static int store_lines(struct audit_witness_source *s, const struct buf *lines, struct err *e)
{
	struct client_request r = { .method = "POST", .type = "text/plain; charset=utf-8" };
	struct buf body = BUF_INIT(TLOG_NOTE_MAX);
	struct target t;
	int done;

	target_init(&t, "/v1/audit/cosignature");
	target_query(&t, "tenant", s->tenant);
	buf_put_text(&body, s->text);
	buf_put_text(&body, "\n");
	buf_put_text(&body, s->own);
	buf_put(&body, lines->data, lines->len);
	r.body = body.data;
	r.body_len = body.len;
	done = buf_check(&body, e);
	if (done == 0)
		done = api_call_send(s->a, &r, &t, e);
	buf_release(&body);
	/* A server may keep none. The file has it then. */
	return done < 0 && s->a->status == 404 && s->is_saved ? 0 : done;
}

/* A witness that knows an older size answers 409 with it, and the request is made again from
 * there. A size beyond ours means that this server lost records that it had shown before: an
 * alarm, not a retry. */
static int audit_witness_ask(struct audit_witness_source *s, const char *url,
			     const struct tlog_vkey *k, struct err *e)
{
	struct client *c = client_new(&(struct client_options){ .url = url,
								.connect_ms = WITNESS_CONNECT_MS,
								.io_ms = WITNESS_IO_MS },
				      e);
	struct buf lines = BUF_INIT(TLOG_NOTE_MAX);
	uint64_t size = 0;
	int done = c == NULL ? -1 : 0;

	for (int i = 0; i < WITNESS_TRIES && done == 0; i++) {
		if (size > s->c.size)
			done = err_set(
				e, ERR_CONFLICT,
				"the witness has seen this log with %llu records, and it has "
				"%llu: it was rolled back",
				(unsigned long long)size, (unsigned long long)s->c.size);
		else
			done = audit_witness_post(c, s, &size, &lines, e);
	}
	if (done == 0)
		done = err_set(e, ERR_CONFLICT, "the witness is busy with this log: try again");
	client_free(c);
	if (done > 0)
		done = check_lines(s, k, &lines, e);
	if (done == 0)
		done = buf_add(&s->note, lines.data, lines.len, e);
	if (done == 0)
		done = store_lines(s, &lines, e);
	buf_release(&lines);
	return done;
}

/* ---- all of them */

/* The file replaces an older one as a whole, so a later --since never reads half of it. */
static int audit_witness_save(const struct audit_witness_source *s, const char *path, struct err *e)
{
	struct saved_file f;
	int done;

	if (saved_file_open(&f, path, e) < 0)
		return -1;
	done = saved_file_write(&f, s->note.data, s->note.len, e);
	if (done == 0)
		done = saved_file_commit(&f, 0644, e);
	saved_file_release(&f);
	return done;
}

/* One failed witness does not stop the others. The file is written even then, with the
 * cosignatures that came. */
static int run_all(struct audit_witness_source *s, const struct audit_witness *w,
		   const struct tlog_vkey *keys)
{
	int code = ARGS_OK;
	struct err e;

	if (get_checkpoint(s, &e) < 0)
		return args_fail(&e);
	for (size_t i = 0; i < w->n / 2; i++) {
		if (audit_witness_ask(s, w->words[2 * i], &keys[i], &e) == 0) {
			(void)printf("%s cosigned %s with %llu records\n", keys[i].name,
				     s->c.origin, (unsigned long long)s->c.size);
			continue;
		}
		IGNORED(err_wrap(&e, "%s", keys[i].name), "it is told below");
		(void)args_fail(&e);
		code = ARGS_FAILED;
	}
	if (w->out != NULL && audit_witness_save(s, w->out, &e) < 0)
		return args_fail(&e);
	return code;
}

/* The keys are checked before anything is sent, so a mistake in the last one costs no
 * cosignature of the first. */
int audit_witness_run(const struct verb *v, const struct args_common *o,
		      const struct audit_witness *w)
{
	static struct tlog_vkey keys[ARGS_WORDS_MAX / 2];
	static struct audit_witness_source s;
	OWN_API_CALL a = { 0 };
	struct err e;
	int code;

	if (w->n == 0 || w->n % 2 != 0)
		return args_wrong(v, "witness: URL and verifier key of each witness");
	for (size_t i = 0; i < w->n / 2; i++)
		if (tlog_vkey_parse(w->words[2 * i + 1], strlen(w->words[2 * i + 1]), &keys[i],
				    &e) < 0)
			return args_wrong(v, "%s", e.msg);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(v, &e);
	s.a = &a;
	s.tenant = w->tenant;
	s.is_saved = w->out != NULL;
	buf_init(&s.note, TLOG_NOTE_MAX);
	code = run_all(&s, w, keys);
	buf_release(&s.note);
	return code;
}
