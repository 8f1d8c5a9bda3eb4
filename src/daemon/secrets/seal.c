/* seal.c - theory of operation
 *
 *	box = 1 | length of id | id | nonce (12) | ciphertext | tag (16)
 *
 * The bytes before the nonce, and `about`, are authenticated, too. Nonces are random: with 96 bits,
 * one key can encrypt far more boxes than a node will make. */
#include "daemon/secrets/seal.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/rand.h"

#define VERSION 1
#define KEY 32
#define NONCE 12
#define TAG 16
#define BASE64_KEY ((size_t)BASE64_LENGTH(KEY))
#define ID_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

/* A line of the key file. keys[0] seals, all of them open. */
struct key {
	char id[SEAL_ID_MAX];
	uint8_t bytes[KEY];
};

struct seal {
	EVP_CIPHER *cipher; /* owned. Fetched once, before the process is confined */
	size_t n;
	struct key keys[SEAL_KEYS_MAX];
};

/* The head of a box, as read. */
struct seal_head {
	char id[SEAL_ID_MAX];
	size_t len; /* of version, length and id */
	const uint8_t *nonce, *bytes;
	size_t n; /* of the ciphertext */
};

static const struct key *seal_find(const struct seal *s, const char *id)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->keys[i].id, id) == 0)
			return &s->keys[i];
	return NULL;
}

/* One line without its newline. Errors name the line's number and the key's id, never the key. */
static int read_line(struct seal *s, const char *line, size_t len, unsigned number, struct err *e)
{
	const char *colon = memchr(line, ':', len);
	size_t id_len = colon == NULL ? 0 : (size_t)(colon - line), left;
	uint8_t bytes[BASE64_BYTES(BASE64_KEY)];
	struct key *k = &s->keys[s->n];

	if (colon == NULL || id_len == 0 || id_len >= SEAL_ID_MAX)
		return err_set(e, ERR_INVALID, "line %u: not of the form id:key", number);
	if (s->n == SEAL_KEYS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d keys", SEAL_KEYS_MAX);
	memcpy(k->id, line, id_len);
	k->id[id_len] = '\0';
	if (strspn(k->id, ID_CHARS) != id_len || seal_find(s, k->id) != NULL)
		return err_set(e, ERR_INVALID, "line %u: the key id is invalid or used twice",
			       number);
	left = len - id_len - 1;
	if (left != BASE64_KEY || base64_decode(colon + 1, left, bytes) != KEY) {
		explicit_bzero(bytes, sizeof(bytes));
		return err_set(e, ERR_INVALID, "line %u: key %s is not 32 bytes in base64", number,
			       k->id);
	}
	memcpy(k->bytes, bytes, KEY);
	explicit_bzero(bytes, sizeof(bytes));
	s->n++;
	return 0;
}

/* Blanks and carriage returns at the end of a line do not count. */
static int read_lines(struct seal *s, const char *text, size_t len, struct err *e)
{
	unsigned number = 0;

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end == NULL ? len - at : (size_t)(end - text) - at, used = n;

		number++;
		while (used > 0 && (text[at + used - 1] == '\r' || text[at + used - 1] == ' '))
			used--;
		if (used > 0 && text[at] != '#' && read_line(s, text + at, used, number, e) < 0)
			return -1;
		at += n + 1;
	}
	return s->n > 0 ? 0 : err_set(e, ERR_INVALID, "no key in the file");
}

int seal_read(const char *text, size_t len, struct seal **ret, struct err *e)
{
	struct seal *s;

	if (len > (size_t)SEAL_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "more than %u bytes", SEAL_TEXT_MAX);
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_sys(e, "keys");
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	s->cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
	if (s->cipher == NULL) {
		(void)err_set(e, ERR_UNSUPPORTED, "OpenSSL has no AES-256-GCM");
	} else if (read_lines(s, text, len, e) == 0) {
		*ret = s;
		return 0;
	}
	seal_free(s);
	return -1;
}

void seal_free(struct seal *s)
{
	if (s == NULL)
		return;
	EVP_CIPHER_free(s->cipher);
	explicit_bzero(s, sizeof(*s));
	free(s);
}

void seal_make_line(const char *id, char ret[SEAL_LINE_MAX])
{
	uint8_t bytes[KEY];
	char text[BASE64_KEY + 1];

	rand_bytes(bytes, sizeof(bytes));
	base64_encode(bytes, sizeof(bytes), text);
	(void)snprintf(ret, SEAL_LINE_MAX, "%.32s:%s\n", id, text);
	explicit_bzero(bytes, sizeof(bytes));
	explicit_bzero(text, sizeof(text));
}

void seal_wipe(char *value, size_t len)
{
	if (value != NULL)
		explicit_bzero(value, len);
	free(value);
}

/* ---- the cipher. Its context is wiped when it is freed */

/* The head and `about` are authenticated first, then the value. The tag follows the ciphertext.
 * False: OpenSSL failed. */
static bool seal_encrypt(EVP_CIPHER_CTX *c, const struct seal *s, const char *about,
			 const struct seal_head *h, const uint8_t *box, const void *value,
			 uint8_t *to)
{
	int n = 0;

	return EVP_EncryptInit_ex2(c, s->cipher, s->keys[0].bytes, h->nonce, NULL) == 1 &&
	       EVP_EncryptUpdate(c, NULL, &n, box, (int)h->len) == 1 &&
	       EVP_EncryptUpdate(c, NULL, &n, (const uint8_t *)about, (int)strlen(about)) == 1 &&
	       EVP_EncryptUpdate(c, to, &n, value, (int)h->n) == 1 && (size_t)n == h->n &&
	       EVP_EncryptFinal_ex(c, to + n, &n) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, to + h->n) == 1;
}

/* False also if the tag does not fit. Then the bytes in `to` are of no value, and the caller wipes
 * them. */
static bool seal_decrypt(EVP_CIPHER_CTX *c, const struct seal *s, const struct key *k,
			 const char *about, const struct seal_head *h, const uint8_t *box,
			 uint8_t *to)
{
	uint8_t tag[TAG];
	int n = 0;

	memcpy(tag, h->bytes + h->n, TAG);
	return EVP_DecryptInit_ex2(c, s->cipher, k->bytes, h->nonce, NULL) == 1 &&
	       EVP_DecryptUpdate(c, NULL, &n, box, (int)h->len) == 1 &&
	       EVP_DecryptUpdate(c, NULL, &n, (const uint8_t *)about, (int)strlen(about)) == 1 &&
	       EVP_DecryptUpdate(c, to, &n, h->bytes, (int)h->n) == 1 && (size_t)n == h->n &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, tag) == 1 &&
	       EVP_DecryptFinal_ex(c, to + n, &n) == 1;
}

/* ---- boxes */

/* Lengths of a box are checked here, so the other functions rely on them. */
static bool read_head(const uint8_t *box, size_t len, struct seal_head *ret)
{
	size_t id_len = len < 2 ? 0 : box[1];

	if (len < 2 || box[0] != VERSION || id_len == 0 || id_len >= SEAL_ID_MAX ||
	    len < 2 + id_len + NONCE + TAG || len - (2 + id_len + NONCE + TAG) > SEAL_VALUE_MAX)
		return false;
	memcpy(ret->id, box + 2, id_len);
	ret->id[id_len] = '\0';
	ret->len = 2 + id_len;
	ret->nonce = box + ret->len;
	ret->bytes = ret->nonce + NONCE;
	ret->n = len - ret->len - NONCE - TAG;
	return strspn(ret->id, ID_CHARS) == id_len;
}

/* The length, the nonce and the key's id of a box are visible in the database. */
int seal_close(const struct seal *s, const char *about, const void *value, size_t len,
	       uint8_t **ret, size_t *ret_len, struct err *e)
{
	size_t id_len = strlen(s->keys[0].id), total = 2 + id_len + NONCE + len + TAG;
	struct seal_head h;
	OWN_MEM uint8_t *box = NULL;
	EVP_CIPHER_CTX *c;
	bool done;

	if (len > SEAL_VALUE_MAX)
		return err_set(e, ERR_LIMIT, "a value of more than %u bytes", SEAL_VALUE_MAX);
	box = malloc(total);
	c = EVP_CIPHER_CTX_new();
	if (box == NULL || c == NULL) {
		EVP_CIPHER_CTX_free(c);
		return err_sys(e, "seal");
	}
	box[0] = VERSION;
	box[1] = (uint8_t)id_len;
	memcpy(box + 2, s->keys[0].id, id_len);
	rand_bytes(box + 2 + id_len, NONCE);
	done = read_head(box, total, &h) &&
	       seal_encrypt(c, s, about, &h, box, value, box + 2 + id_len + NONCE);
	EVP_CIPHER_CTX_free(c);
	if (!done)
		return err_set(e, ERR_SYSTEM, "seal: OpenSSL failed");
	*ret = box;
	*ret_len = total;
	box = NULL;
	return 0;
}

int seal_open(const struct seal *s, const char *about, const void *box, size_t box_len, char **ret,
	      size_t *ret_len, struct err *e)
{
	const struct key *k;
	EVP_CIPHER_CTX *c;
	struct seal_head h;
	uint8_t *value;
	bool done;

	if (!read_head(box, box_len, &h))
		return err_set(e, ERR_INVALID, "not a sealed value");
	k = seal_find(s, h.id);
	if (k == NULL)
		return err_set(e, ERR_NOT_FOUND, "sealed with key %s, which is not in the key file",
			       h.id);
	value = malloc(h.n + 1);
	c = EVP_CIPHER_CTX_new();
	if (value == NULL || c == NULL) {
		free(value);
		EVP_CIPHER_CTX_free(c);
		return err_sys(e, "unseal");
	}
	done = seal_decrypt(c, s, k, about, &h, box, value);
	EVP_CIPHER_CTX_free(c);
	if (!done) {
		seal_wipe((char *)value, h.n);
		return err_set(e, ERR_INVALID,
			       "decryption with key %s failed: the value was changed or belongs to "
			       "another name",
			       h.id);
	}
	value[h.n] = '\0';
	*ret = (char *)value;
	*ret_len = h.n;
	return 0;
}

bool seal_is_current(const struct seal *s, const void *box, size_t box_len)
{
	struct seal_head h;

	return read_head(box, box_len, &h) && strcmp(h.id, s->keys[0].id) == 0;
}
