#include "lib/tlog/tlog_note.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/hex.h"

#define DASH "\xe2\x80\x94 " /* an em dash and a space: the start of a signature line */
#define SIG_BYTES_MAX 4096   /* of other algorithms */

/* ---- keys */

bool tlog_name_is_valid(const char *name, size_t len)
{
	if (len == 0 || len >= TLOG_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] > '~' || name[i] == '+')
			return false;
	return true;
}

bool tlog_vkey_make(const char *name, enum tlog_key_type type, const uint8_t key[TLOG_KEY],
		    struct tlog_vkey *ret)
{
	size_t len = strlen(name);
	const uint8_t middle[2] = { '\n', (uint8_t)type };
	uint8_t sum[SHA256_SIZE];
	struct sha256 s;

	if (!tlog_name_is_valid(name, len))
		return false;
	*ret = (struct tlog_vkey){ .type = type };
	memcpy(ret->name, name, len);
	memcpy(ret->key, key, TLOG_KEY);
	sha256_init(&s);
	sha256_add(&s, name, len);
	sha256_add(&s, middle, sizeof(middle));
	sha256_add(&s, key, TLOG_KEY);
	sha256_end(&s, sum);
	memcpy(ret->id, sum, sizeof(ret->id));
	return true;
}

void tlog_vkey_format(const struct tlog_vkey *k, char ret[TLOG_VKEY_MAX])
{
	uint8_t bytes[1 + TLOG_KEY] = { (uint8_t)k->type };
	char id[2 * sizeof(k->id) + 1], text[BASE64_LENGTH(sizeof(bytes)) + 1];

	memcpy(bytes + 1, k->key, TLOG_KEY);
	hex_encode(k->id, sizeof(k->id), id);
	base64_encode(bytes, sizeof(bytes), text);
	(void)snprintf(ret, TLOG_VKEY_MAX, "%s+%s+%s", k->name, id, text);
}

int tlog_vkey_parse(const char *text, size_t len, struct tlog_vkey *ret, struct err *e)
{
	uint8_t bytes[BASE64_BYTES(BASE64_LENGTH(1 + TLOG_KEY))], id[sizeof(ret->id)];
	const char *plus = memchr(text, '+', len), *more;
	size_t rest = plus == NULL ? 0 : len - (size_t)(plus + 1 - text);
	char name[TLOG_NAME_MAX] = "";
	struct err any;

	if (plus == NULL || !tlog_name_is_valid(text, (size_t)(plus - text)) ||
	    rest != 9 + BASE64_LENGTH(1 + TLOG_KEY) || plus[9] != '+')
		return err_set(e, ERR_INVALID, "a verifier key is NAME+HEX+BASE64");
	more = plus + 10;
	memcpy(name, text, (size_t)(plus - text));
	for (const char *p = plus + 1; p < plus + 9; p++)
		if (*p >= 'A' && *p <= 'F')
			return err_set(e, ERR_INVALID, "the id of a verifier key is in lower case");
	if (hex_decode(plus + 1, 8, id, sizeof(id), &any) < 0 ||
	    base64_decode(more, rest - 9, bytes) != 1 + TLOG_KEY)
		return err_set(e, ERR_INVALID, "a verifier key is NAME+HEX+BASE64");
	if (bytes[0] != TLOG_KEY_ED25519 && bytes[0] != TLOG_KEY_COSIGNATURE)
		return err_set(e, ERR_UNSUPPORTED, "a verifier key of the unknown type %u",
			       bytes[0]);
	if (!tlog_vkey_make(name, (enum tlog_key_type)bytes[0], bytes + 1, ret) ||
	    memcmp(ret->id, id, sizeof(id)) != 0)
		return err_set(e, ERR_INVALID, "the id of the verifier key is not that of its key");
	return 0;
}

/* ---- notes */

/* One line without its newline. */
static bool read_sig(const char *line, size_t len, struct tlog_sig *ret)
{
	uint8_t bytes[SIG_BYTES_MAX];
	const char *space;
	size_t at, coded;
	ssize_t n;

	*ret = (struct tlog_sig){ .line = line, .line_len = len + 1 };
	if (len < sizeof(DASH) || memcmp(line, DASH, sizeof(DASH) - 1) != 0)
		return false;
	ret->name = line + sizeof(DASH) - 1;
	space = memchr(ret->name, ' ', len - (sizeof(DASH) - 1));
	if (space == NULL)
		return false;
	ret->name_len = (size_t)(space - ret->name);
	at = (size_t)(space + 1 - line);
	coded = len - at;
	if (!tlog_name_is_valid(ret->name, ret->name_len) || BASE64_BYTES(coded) > sizeof(bytes))
		return false;
	n = base64_decode(space + 1, coded, bytes);
	if (n <= (ssize_t)sizeof(ret->id))
		return false;
	memcpy(ret->id, bytes, sizeof(ret->id));
	ret->len = (size_t)n - sizeof(ret->id);
	memcpy(ret->bytes, bytes + sizeof(ret->id),
	       ret->len < sizeof(ret->bytes) ? ret->len : sizeof(ret->bytes));
	return true;
}

static bool is_text(const char *from, const char *end)
{
	for (const char *p = from; p < end; p++)
		if ((*p < ' ' || *p > '~') && *p != '\n')
			return false;
	return true;
}

/* The last empty line: what follows are signatures. */
static const char *find_gap(const char *bytes, size_t len)
{
	for (size_t i = len; i-- > 1;)
		if (bytes[i] == '\n' && bytes[i - 1] == '\n')
			return bytes + i;
	return NULL;
}

int tlog_note_split(const char *bytes, size_t len, struct tlog_note *ret, struct err *e)
{
	const char *end = bytes + len, *gap;

	if (len > TLOG_NOTE_MAX)
		return err_set(e, ERR_LIMIT, "a signed note of more than %d bytes", TLOG_NOTE_MAX);
	gap = find_gap(bytes, len);
	if (gap == NULL || !is_text(bytes, gap) || end[-1] != '\n' || gap + 1 == end)
		return err_set(e, ERR_INVALID, "not a signed note");
	*ret = (struct tlog_note){ .text = bytes, .text_len = (size_t)(gap - bytes) };
	for (const char *line = gap + 1; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));

		if (ret->nsigs == TLOG_SIGS_MAX)
			return err_set(e, ERR_LIMIT, "a signed note with more than %d signatures",
				       TLOG_SIGS_MAX);
		if (stop == NULL || !read_sig(line, (size_t)(stop - line), &ret->sigs[ret->nsigs]))
			return err_set(e, ERR_INVALID, "a malformed signature line");
		ret->nsigs++;
		line = stop + 1;
	}
	return 0;
}

void tlog_cosignature_text(uint64_t seconds, const char *text, size_t len, struct buf *ret)
{
	buf_printf(ret, "cosignature/v1\ntime %llu\n", (unsigned long long)seconds);
	buf_put(ret, text, len);
}

static uint64_t read_big_endian(const uint8_t *bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 8; i++)
		v = v << 8 | bytes[i];
	return v;
}

static bool is_cosigned(const struct tlog_note *n, const struct tlog_sig *s,
			const struct tlog_vkey *k, tlog_verify_fn *verify, void *arg,
			uint64_t *ret_time)
{
	struct buf b = BUF_INIT(TLOG_NOTE_MAX + 64);
	uint64_t seconds = read_big_endian(s->bytes);
	struct err e;
	bool good;

	tlog_cosignature_text(seconds, n->text, n->text_len, &b);
	good = buf_check(&b, &e) == 0 && seconds <= INT64_MAX &&
	       verify(arg, k->key, b.data, b.len, s->bytes + 8);
	buf_release(&b);
	if (good && ret_time != NULL)
		*ret_time = seconds;
	return good;
}

static bool is_signed(const struct tlog_note *n, const struct tlog_sig *s,
		      const struct tlog_vkey *k, tlog_verify_fn *verify, void *arg,
		      uint64_t *ret_time)
{
	if (k->type == TLOG_KEY_COSIGNATURE)
		return s->len == TLOG_COSIG && is_cosigned(n, s, k, verify, arg, ret_time);
	return s->len == TLOG_SIG && verify(arg, k->key, n->text, n->text_len, s->bytes);
}

enum tlog_verdict tlog_note_verify(const struct tlog_note *n, const struct tlog_vkey *k,
				   tlog_verify_fn *verify, void *arg, uint64_t *ret_time)
{
	enum tlog_verdict found = TLOG_UNSIGNED;
	size_t len = strlen(k->name);

	if (ret_time != NULL)
		*ret_time = 0;
	for (unsigned i = 0; i < n->nsigs; i++) {
		const struct tlog_sig *s = &n->sigs[i];

		if (s->name_len != len || memcmp(s->name, k->name, len) != 0 ||
		    memcmp(s->id, k->id, sizeof(k->id)) != 0)
			continue;
		if (!is_signed(n, s, k, verify, arg, ret_time))
			return TLOG_BAD;
		found = TLOG_GOOD;
	}
	return found;
}

size_t tlog_next_key_text(const char *vkey, char ret[TLOG_CHECKPOINT_MAX])
{
	return (size_t)snprintf(ret, TLOG_CHECKPOINT_MAX, "cordon next key\n%s\n", vkey);
}

size_t tlog_sig_line(const struct tlog_vkey *k, const uint8_t *sig, size_t n,
		     char ret[TLOG_SIG_LINE_MAX])
{
	uint8_t bytes[sizeof(k->id) + TLOG_COSIG];
	char text[BASE64_LENGTH(sizeof(bytes)) + 1];

	n = n < TLOG_COSIG ? n : TLOG_COSIG;
	memcpy(bytes, k->id, sizeof(k->id));
	memcpy(bytes + sizeof(k->id), sig, n);
	base64_encode(bytes, sizeof(k->id) + n, text);
	return (size_t)snprintf(ret, TLOG_SIG_LINE_MAX, DASH "%s %s\n", k->name, text);
}

/* ---- checkpoints */

size_t tlog_checkpoint_format(const struct tlog_checkpoint *c, char ret[TLOG_CHECKPOINT_MAX])
{
	char root[BASE64_LENGTH(TLOG_HASH) + 1];

	if (!tlog_name_is_valid(c->origin, strlen(c->origin)))
		return 0;
	base64_encode(c->root.bytes, TLOG_HASH, root);
	return (size_t)snprintf(ret, TLOG_CHECKPOINT_MAX, "%s\n%llu\n%s\n", c->origin,
				(unsigned long long)c->size, root);
}

/* A line without its newline. False: there is none. */
static bool take_line(const char **p, const char *end, const char **ret, size_t *ret_len)
{
	const char *stop = memchr(*p, '\n', (size_t)(end - *p));

	if (stop == NULL)
		return false;
	*ret = *p;
	*ret_len = (size_t)(stop - *p);
	*p = stop + 1;
	return true;
}

/* Decimal, without leading zeros. */
static bool read_size(const char *text, size_t len, uint64_t *ret)
{
	*ret = 0;
	if (len == 0 || len > 19 || (text[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*ret = *ret * 10 + (uint64_t)(text[i] - '0');
	}
	return *ret <= TLOG_SIZE_MAX;
}

int tlog_checkpoint_parse(const char *text, size_t len, struct tlog_checkpoint *ret, struct err *e)
{
	uint8_t root[BASE64_BYTES(BASE64_LENGTH(TLOG_HASH))];
	const char *p = text, *end = text + len, *line;
	size_t n;

	*ret = (struct tlog_checkpoint){ 0 };
	if (!take_line(&p, end, &line, &n) || !tlog_name_is_valid(line, n))
		return err_set(e, ERR_INVALID, "the origin of the checkpoint is malformed");
	memcpy(ret->origin, line, n);
	if (!take_line(&p, end, &line, &n) || !read_size(line, n, &ret->size))
		return err_set(e, ERR_INVALID, "the size of the checkpoint is malformed");
	if (!take_line(&p, end, &line, &n) || n != TLOG_ROOT_TEXT ||
	    base64_decode(line, n, root) != TLOG_HASH)
		return err_set(e, ERR_INVALID, "the root of the checkpoint is malformed");
	if (p != end)
		return err_set(e, ERR_INVALID, "the checkpoint has unknown lines");
	memcpy(ret->root.bytes, root, TLOG_HASH);
	return 0;
}
