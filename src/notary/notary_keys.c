#include "notary/notary_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/rand.h"

/* The file: magic, name, whether there is a former key, the seeds of the present, the documents'
 * and the former key, and a checksum. */
static const char magic[16] = "cordon-notary 1\n";
enum {
	FILE_NAME = 16,
	FILE_FORMER = FILE_NAME + NOTARY_NAME_MAX,
	FILE_PRESENT = FILE_FORMER + 8,
	FILE_DOCUMENTS = FILE_PRESENT + TLOG_KEY,
	FILE_BEFORE = FILE_DOCUMENTS + TLOG_KEY,
	FILE_SUM = FILE_BEFORE + TLOG_KEY,
	FILE_SIZE = FILE_SUM + SHA256_SIZE,
};

#define KEYS_FILE "keys"
#define KEYS_NEW "keys.new"
#define NODE_BYTES 8

/* ---- one key
 *
 * A key's seed is kept beside libcrypto's own form, because the file is always written whole. */

static void key_clear(struct notary_key *k)
{
	EVP_PKEY_free(k->pkey);
	explicit_bzero(k, sizeof(*k));
}

/* On failure k is empty, never half set. */
static int key_set(struct notary_key *k, const char *name, const uint8_t seed[TLOG_KEY],
		   struct err *e)
{
	uint8_t public[TLOG_KEY];
	size_t len = sizeof(public);

	key_clear(k);
	k->pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, TLOG_KEY);
	if (k->pkey == NULL || EVP_PKEY_get_raw_public_key(k->pkey, public, &len) != 1 ||
	    len != sizeof(public) || !tlog_vkey_make(name, TLOG_KEY_ED25519, public, &k->public)) {
		key_clear(k);
		return err_set(e, ERR_SYSTEM, "libcrypto takes no key");
	}
	memcpy(k->seed, seed, TLOG_KEY);
	return 0;
}

/* ret is written only on success. */
int notary_key_sign(const struct notary_key *k, const void *message, size_t len,
		    uint8_t ret[TLOG_SIG], struct err *e)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	size_t n = TLOG_SIG;
	bool done = c != NULL && EVP_DigestSignInit(c, NULL, NULL, NULL, k->pkey) == 1 &&
		    EVP_DigestSign(c, ret, &n, message, len) == 1 && n == TLOG_SIG;

	EVP_MD_CTX_free(c);
	return done ? 0 : err_set(e, ERR_SYSTEM, "libcrypto does not sign");
}

/* ---- the file
 *
 * It is replaced by a rename, so a kill at any moment leaves the old file or the new one. */

/* former NULL: there is none. */
static int keys_write(const struct notary_keys *k, const uint8_t present[TLOG_KEY],
		      const uint8_t *former, struct err *e)
{
	uint8_t bytes[FILE_SIZE] = { 0 };
	int done;

	memcpy(bytes, magic, sizeof(magic));
	memcpy(bytes + FILE_NAME, k->name, strlen(k->name));
	bytes[FILE_FORMER] = former != NULL;
	memcpy(bytes + FILE_PRESENT, present, TLOG_KEY);
	memcpy(bytes + FILE_DOCUMENTS, k->documents.seed, TLOG_KEY);
	if (former != NULL)
		memcpy(bytes + FILE_BEFORE, former, TLOG_KEY);
	sha256_of(bytes, FILE_SUM, bytes + FILE_SUM);

	(void)unlinkat(k->dir, KEYS_NEW, 0);
	OWN_FD fd = openat(k->dir, KEYS_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			   0600);
	if (fd < 0) {
		explicit_bzero(bytes, sizeof(bytes));
		return err_sys(e, "make the file of keys");
	}
	done = io_write_all(fd, bytes, sizeof(bytes), e);
	explicit_bzero(bytes, sizeof(bytes));
	if (done < 0)
		return -1;
	if (fsync(fd) < 0 || renameat(k->dir, KEYS_NEW, k->dir, KEYS_FILE) < 0 || fsync(k->dir) < 0)
		return err_sys(e, "write the file of keys");
	return 0;
}

int notary_keys_exist(int dir, struct err *e)
{
	struct stat st;

	if (fstatat(dir, KEYS_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_sys(e, "look for the file of keys");
}

/* The checksum is compared before any byte is used. */
static int keys_set(struct notary_keys *k, const uint8_t bytes[FILE_SIZE], struct err *e)
{
	uint8_t sum[SHA256_SIZE];
	char documents[NOTARY_NAME_MAX + 16];

	sha256_of(bytes, FILE_SUM, sum);
	if (memcmp(bytes, magic, sizeof(magic)) != 0 || memcmp(sum, bytes + FILE_SUM, 32) != 0 ||
	    bytes[FILE_FORMER - 1] != '\0')
		return err_set(e, ERR_INVALID, "the file of keys is damaged: restore it");
	memcpy(k->name, bytes + FILE_NAME, sizeof(k->name));
	(void)snprintf(documents, sizeof(documents), "%s.documents", k->name);
	if (key_set(&k->present, k->name, bytes + FILE_PRESENT, e) < 0 ||
	    key_set(&k->documents, documents, bytes + FILE_DOCUMENTS, e) < 0)
		return -1;
	if (bytes[FILE_FORMER] == 0)
		return 0;
	return key_set(&k->former, k->name, bytes + FILE_BEFORE, e);
}

/* A file that others may read is refused: its keys may be known. */
int notary_keys_open(struct notary_keys *k, int dir, struct err *e)
{
	uint8_t bytes[FILE_SIZE + 1];
	struct stat st;
	ssize_t n;
	int done;

	*k = (struct notary_keys){ .dir = dir };
	OWN_FD fd = openat(dir, KEYS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open the file of keys");
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0)
		return err_set(e, ERR_DENIED, "the file of keys must have mode 0600");
	n = read(fd, bytes, sizeof(bytes));
	if (n < 0)
		return err_sys(e, "read the file of keys");
	done = n == FILE_SIZE ? keys_set(k, bytes, e)
			      : err_set(e, ERR_INVALID, "the file of keys is damaged: restore it");
	explicit_bzero(bytes, sizeof(bytes));
	return done;
}

/* The file is read back, so that a new process starts in the way of every later one. */
int notary_keys_make(struct notary_keys *k, int dir, struct err *e)
{
	uint8_t node[NODE_BYTES], seed[TLOG_KEY];
	char digits[2 * NODE_BYTES + 1];
	int done;

	*k = (struct notary_keys){ .dir = dir };
	rand_bytes(node, sizeof(node));
	hex_encode(node, sizeof(node), digits);
	(void)snprintf(k->name, sizeof(k->name), "cordon.%s", digits);
	rand_bytes(k->documents.seed, TLOG_KEY);
	rand_bytes(seed, sizeof(seed));
	done = keys_write(k, seed, NULL, e);
	explicit_bzero(seed, sizeof(seed));
	explicit_bzero(&k->documents, sizeof(k->documents));
	return done < 0 ? -1 : notary_keys_open(k, dir, e);
}

/* ---- changes: in memory when they are on disk
 *
 * A failed write leaves both the file and the memory as they were. */

/* The new key signs from here on, the former one beside it. */
int notary_keys_rotate(struct notary_keys *k, struct err *e)
{
	struct notary_key new = { 0 };
	uint8_t seed[TLOG_KEY];
	int done;

	rand_bytes(seed, sizeof(seed));
	done = key_set(&new, k->name, seed, e);
	if (done == 0)
		done = keys_write(k, seed, k->present.seed, e);
	explicit_bzero(seed, sizeof(seed));
	if (done < 0) {
		key_clear(&new);
		return -1;
	}
	k->former = k->present;
	k->present = new;
	return 0;
}

int notary_keys_retire(struct notary_keys *k, struct err *e)
{
	if (k->former.pkey == NULL)
		return 0;
	if (keys_write(k, k->present.seed, NULL, e) < 0)
		return -1;
	key_clear(&k->former);
	return 0;
}
